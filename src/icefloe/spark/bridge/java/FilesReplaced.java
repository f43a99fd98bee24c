package icefloe;

import org.apache.iceberg.exceptions.ValidationException;

/** Another writer replaced files, without a change of rows, while a statement ran that changes rows of them: it was not committed, and can run again. */
final class FilesReplaced extends ValidationException {
  FilesReplaced(String message) {
    super("%s", new Object[] {message});
  }
}
