package icefloe;

import org.apache.iceberg.exceptions.ValidationException;

/** The error of a statement that was to change rows of files which another writer has replaced meanwhile, without changing rows. The statement was not committed, and can run again. */
final class FilesReplaced extends ValidationException {
  FilesReplaced(String message) {
    super("%s", new Object[] {message});
  }
}
