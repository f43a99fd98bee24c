"""`GlueCatalogStore` against a Glue that loses replies; `tests/object_stores/test_glue_catalog.py` has the rest, against an emulator."""

from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from types import SimpleNamespace

import pyarrow as pa
import pytest
from tests.stores.glue_double import LOCATION, Glue, parameters

from icefloe.catalog.glue_catalog import GlueCatalog
from icefloe.commit.outcome import Committed, Conflicted, Refused, Unknown
from icefloe.errors import (
    CommitConflictError,
    CommitUnknownError,
    IcefloeError,
    NoSuchTableError,
    StoragePermissionError,
    StorageUnavailableError,
    TableAlreadyExistsError,
    UnfinishedDropError,
)
from icefloe.io.memory_file_io import MemoryFileIO
from icefloe.stores import glue_client, glue_objects, glue_store
from icefloe.stores.catalog_store import CommitRequest
from icefloe.stores.glue_client import GlueError
from icefloe.stores.glue_store import GlueCatalogStore

OLD, NEW = ("db", "t"), ("db", "renamed")


def on(operation: str, do: Callable[[], None], *, times: int = 1) -> Callable[[str], None]:
    """Return a function that does something at the first requests of an operation."""
    seen: list[str] = []

    def interfere(sent: str) -> None:
        if sent == operation and len(seen) < times:
            seen.append(sent)
            do()

    return interfere


def failing(code: str, *, status: int = 400, repeated: bool = False) -> Callable[[], None]:
    """Return a function that fails as a request does; `repeated`: boto3 had sent it before, and that reply was lost."""

    def fail() -> None:
        raise GlueError(code, "no reply" if not code else "refused", status=status if code else 0, was_repeated=repeated)

    return fail


# The last reply to a request that was repeated after the reply to the first one was lost.
LATER = ["ThrottlingException", "ExpiredTokenException", ""]


@pytest.fixture
def glue(monkeypatch: pytest.MonkeyPatch) -> Glue:
    monkeypatch.setattr(glue_store, "sleep", lambda _: None)
    return Glue()


@pytest.fixture
def store(glue: Glue) -> GlueCatalogStore:
    store = GlueCatalogStore("glue", {}, MemoryFileIO())
    store._glue = glue
    return store


def with_metadata(store: GlueCatalogStore, monkeypatch: pytest.MonkeyPatch, **uuids: str) -> None:
    """Let the metadata files `s3://b/<name>` be there, with these uuids of tables."""
    monkeypatch.setattr(store, "_metadata", lambda location: SimpleNamespace(table_uuid=uuids[location.rsplit("/", 1)[-1]]))
    monkeypatch.setattr(glue_objects, "new_table", lambda name, location, _: {"Name": name, "Parameters": parameters(location)})


def opening(store: GlueCatalogStore, *names: tuple[str, str]) -> dict[str, str]:
    """Return the metadata locations of those of the tables that open."""
    found = {}
    for name in names:
        with suppress(NoSuchTableError):
            found[name[-1]] = store.load(name).metadata_location
    return found


@pytest.mark.parametrize("code", [glue_client.MISSING, ""])
def test_a_renamed_table_keeps_its_new_name_where_the_reply_to_the_deletion_of_the_old_one_is_lost(
    store: GlueCatalogStore, glue: Glue, code: str
) -> None:
    glue.after = on("delete_table", failing(code))
    store.rename(OLD, NEW)
    assert glue.locations() == {"renamed": LOCATION}


def test_a_table_whose_old_name_may_not_be_deleted_has_its_new_one(store: GlueCatalogStore, glue: Glue) -> None:
    glue.before = on("delete_table", failing("AccessDeniedException"))
    with pytest.raises(StoragePermissionError, match=r"has the name 'db\.renamed' now"):
        store.rename(OLD, NEW)
    assert opening(store, OLD, NEW) == {"renamed": LOCATION}


def test_a_commit_during_a_rename_is_kept(store: GlueCatalogStore, glue: Glue) -> None:
    glue.before = on("update_table", lambda: glue.commit("s3://b/v2"))
    with pytest.raises(StorageUnavailableError, match="another writer changed it"):
        store.rename(OLD, NEW)
    assert glue.locations() == {"t": "s3://b/v2"}


def test_a_rename_whose_old_name_may_be_there_keeps_the_new_one_and_reports_it(store: GlueCatalogStore, glue: Glue) -> None:
    glue.before = on("delete_table", failing(""), times=1000)
    with pytest.raises(StorageUnavailableError, match=r"has the name 'db\.renamed' now"):
        store.rename(OLD, NEW)
    assert store.load(NEW).metadata_location == LOCATION
    assert store.list_tables(("db",)) == [NEW]
    with pytest.raises(UnfinishedDropError, match="rename"):
        store.load(OLD)
    glue.before = lambda _: None
    assert store.drop(OLD)
    assert glue.locations() == {"renamed": LOCATION}


def test_a_taken_name_is_refused_and_the_table_keeps_its_own(store: GlueCatalogStore, glue: Glue) -> None:
    glue.put("renamed", "s3://b/other")
    with pytest.raises(TableAlreadyExistsError):
        store.rename(OLD, NEW)
    assert glue.tables["t"]["VersionId"] == "0"
    del glue.tables["renamed"]
    glue.before = on("create_table", lambda: glue.put("renamed", "s3://b/other"))
    with pytest.raises(TableAlreadyExistsError):
        store.rename(OLD, NEW)
    assert glue.locations() == {"t": LOCATION, "renamed": "s3://b/other"}
    assert glue.tables["t"]["Parameters"] == parameters(LOCATION)


def test_a_new_name_that_is_denied_leaves_the_old_one(store: GlueCatalogStore, glue: Glue) -> None:
    glue.before = on("create_table", failing("AccessDeniedException"))
    with pytest.raises(StoragePermissionError, match="not renamed"):
        store.rename(OLD, NEW)
    assert glue.locations() == {"t": LOCATION}
    assert glue.tables["t"]["Parameters"] == parameters(LOCATION)


@pytest.mark.parametrize("code", [*LATER, glue_client.EXISTS])
def test_a_rename_whose_reply_to_the_creation_is_lost_is_a_rename(store: GlueCatalogStore, glue: Glue, code: str) -> None:
    glue.after = on("create_table", failing(code, repeated=True))
    store.rename(OLD, NEW)
    assert glue.locations() == {"renamed": LOCATION}


def test_a_renamed_table_that_gets_a_commit_before_the_repeated_creation_keeps_it(
    store: GlueCatalogStore, glue: Glue, monkeypatch: pytest.MonkeyPatch
) -> None:
    def commit_and_repeat() -> None:
        glue.put("renamed", "s3://b/v2")
        failing(glue_client.EXISTS, repeated=True)()

    with_metadata(store, monkeypatch, v1="a", v2="a")
    glue.after = on("create_table", commit_and_repeat)
    store.rename(OLD, NEW)
    assert glue.locations() == {"renamed": "s3://b/v2"}


@pytest.mark.parametrize("operation", ["create_table", "delete_table"])
@pytest.mark.parametrize("moment", ["before", "after"])
def test_never_more_than_one_name_opens_where_the_process_of_a_rename_ends(
    store: GlueCatalogStore, glue: Glue, operation: str, moment: str
) -> None:
    class Killed(BaseException):
        pass

    def end() -> None:
        raise Killed

    setattr(glue, moment, on(operation, end))
    with pytest.raises(Killed):
        store.rename(OLD, NEW)
    assert opening(store, OLD, NEW) == ({} if (operation, moment) == ("create_table", "before") else {"renamed": LOCATION})
    if "t" in glue.tables:
        with pytest.raises(UnfinishedDropError, match=r"rename of table 'db\.t' to 'db\.renamed'") as raised:
            store.load(OLD)
        assert raised.value.path == LOCATION
        assert "register_table" in str(raised.value.next_step)
        assert store.drop(OLD)


def test_a_creation_that_cannot_be_looked_up_leaves_no_two_names(store: GlueCatalogStore, glue: Glue) -> None:
    def lose() -> None:
        glue.before = on("get_table", failing(""), times=1000)
        failing("")()

    glue.after = on("create_table", lose)
    with pytest.raises(CommitUnknownError, match="may have been renamed") as raised:
        store.rename(OLD, NEW)
    assert raised.value.path == LOCATION
    assert "register_table" in str(raised.value.next_step)
    glue.before = lambda _: None
    assert opening(store, OLD, NEW) == {"renamed": LOCATION}


@pytest.mark.parametrize("code", ["", glue_client.MODIFIED, glue_client.MISSING])
def test_a_rename_whose_drop_another_process_ended_creates_no_name_and_returns_the_location(
    store: GlueCatalogStore, glue: Glue, code: str
) -> None:
    def end_and_lose() -> None:
        del glue.tables["t"]
        failing(code, repeated=True)()

    glue.after = on("update_table", end_and_lose)
    with pytest.raises(CommitUnknownError) as raised:
        store.rename(OLD, NEW)
    assert raised.value.path == LOCATION
    assert "register_table" in str(raised.value.next_step)
    assert glue.tables == {}


def test_an_update_that_is_carried_out_after_the_look_is_unknown_and_its_location_known(store: GlueCatalogStore, glue: Glue) -> None:
    glue.before = on("update_table", failing(""))
    with pytest.raises(CommitUnknownError) as raised:
        store.rename(OLD, NEW)
    assert raised.value.path == LOCATION
    glue.before = on("update_table", failing(""))
    with pytest.raises(CommitUnknownError):
        store.drop(OLD)
    assert glue.locations() == {"t": LOCATION}


def test_a_table_that_is_created_after_a_deletion_whose_reply_is_lost_is_kept(store: GlueCatalogStore, glue: Glue) -> None:
    def create_again() -> None:
        glue.put("t", "s3://b/other")
        failing("")()

    glue.after = on("delete_table", create_again)
    assert store.drop(OLD)
    assert glue.locations() == {"t": "s3://b/other"}
    assert glue.sent_once == ["delete_table"]
    glue.after = on("delete_table", create_again)
    store.rename(OLD, NEW)
    assert glue.locations() == {"t": "s3://b/other", "renamed": "s3://b/other"}


def test_a_name_that_another_process_freed_and_took_during_a_rename_is_kept(store: GlueCatalogStore, glue: Glue) -> None:
    glue.after = on("create_table", lambda: glue.put("t", "s3://b/other"))
    store.rename(OLD, NEW)
    assert glue.locations() == {"t": "s3://b/other", "renamed": LOCATION}


def test_a_deletion_that_may_be_carried_out_later_is_not_undone(store: GlueCatalogStore, glue: Glue) -> None:
    codes = ["", "AccessDeniedException"]

    def fail() -> None:
        failing(codes.pop(0))()

    glue.before = on("delete_table", fail, times=2)
    with pytest.raises(UnfinishedDropError):
        store.drop(OLD)
    assert glue.locations() == {"t": None}


@pytest.mark.parametrize("code", ["ThrottlingException", ""])
def test_a_deletion_that_failed_is_sent_again(store: GlueCatalogStore, glue: Glue, code: str) -> None:
    glue.before = on("delete_table", failing(code), times=2)
    assert store.drop(OLD)
    assert glue.sent_once == ["delete_table"] * 3


@pytest.mark.parametrize("code", LATER)
def test_a_commit_whose_lost_reply_is_followed_by_a_refusal_is_unknown_and_then_found(
    store: GlueCatalogStore, glue: Glue, code: str
) -> None:
    request = CommitRequest(identifier=OLD, expected=LOCATION, new="s3://b/v2")
    glue.after = on("update_table", failing(code, repeated=True))
    assert isinstance(store.commit([request]), Unknown)
    assert isinstance(store.commit_status([request]), Committed)
    glue.before = on("update_table", failing("ThrottlingException"))
    assert isinstance(store.commit([CommitRequest(identifier=OLD, expected="s3://b/v2", new="s3://b/v3")]), Refused)


def test_a_commit_whose_table_is_gone_after_a_lost_reply_keeps_its_files(store: GlueCatalogStore, glue: Glue) -> None:
    glue.after = on("update_table", failing(glue_client.MISSING, repeated=True))
    outcome = store.commit([CommitRequest(identifier=OLD, expected=LOCATION, new="s3://b/v2")])
    assert isinstance(outcome, Conflicted)
    assert outcome.is_reply_lost


@pytest.mark.parametrize("code", [*LATER, glue_client.EXISTS])
def test_a_created_table_whose_lost_reply_is_followed_by_a_refusal_is_created(
    store: GlueCatalogStore, glue: Glue, monkeypatch: pytest.MonkeyPatch, code: str
) -> None:
    with_metadata(store, monkeypatch, v1="a", v2="a", other="b")
    glue.after = on("create_table", failing(code, repeated=True))
    assert store.create(NEW, LOCATION) == LOCATION

    def commit_and_repeat() -> None:
        glue.put("committed", "s3://b/v2")
        failing(code, repeated=True)()

    glue.after = on("create_table", commit_and_repeat)
    assert store.create(("db", "committed"), LOCATION) == LOCATION
    glue.before = on("create_table", failing(code, repeated=True))
    with pytest.raises(CommitUnknownError, match="may have been created"):
        store.create(("db", "none"), LOCATION)
    glue.put("taken", "s3://b/other")
    glue.before = on("create_table", failing(code, repeated=True))
    with pytest.raises(TableAlreadyExistsError):
        store.create(("db", "taken"), LOCATION)


def test_the_outcome_of_a_creation_is_unknown_while_a_table_of_the_name_is_dropped(
    store: GlueCatalogStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    def load(_: object) -> None:
        raise UnfinishedDropError("the drop of db.new did not end")

    monkeypatch.setattr(store, "load", load)
    assert isinstance(store.commit_status([CommitRequest(identifier=NEW, expected=None, new=LOCATION)]), Unknown)


def test_a_table_that_another_writer_created_again_is_not_dropped(store: GlueCatalogStore, glue: Glue) -> None:
    glue.commit("s3://b/v2")

    def create_again() -> None:
        del glue.tables["t"]
        glue.put("t", "s3://b/other")

    glue.before = on("update_table", create_again)
    assert store.drop(OLD, expected="s3://b/v2") is False
    assert glue.locations() == {"t": "s3://b/other"}


def test_no_table_is_created_and_no_commit_made_between_the_two_steps_of_a_drop(store: GlueCatalogStore, glue: Glue) -> None:
    refused = []

    def interfere() -> None:
        for operation, arguments in (
            ("create_table", {"TableInput": {"Name": "t", "Parameters": {}}}),
            ("update_table", {"TableInput": {"Name": "t", "Parameters": {}}, "VersionId": "0"}),
        ):
            with pytest.raises(GlueError) as raised:
                glue.call(operation, DatabaseName="db", **arguments)
            refused.append(raised.value.code)
        with pytest.raises(NoSuchTableError):
            store.load(OLD)
        with pytest.raises(UnfinishedDropError):
            store.drop(OLD, expected=LOCATION)

    glue.before = on("delete_table", interfere)
    assert store.drop(OLD, expected=LOCATION)
    assert refused == [glue_client.EXISTS, glue_client.MODIFIED]
    assert glue.locations() == {}


def test_a_drop_of_any_version_follows_the_commits_of_others_and_gives_up_in_the_end(store: GlueCatalogStore, glue: Glue) -> None:
    glue.before = on("update_table", lambda: glue.commit("s3://b/new"), times=3)
    assert store.drop(OLD)
    glue.put("t", LOCATION)
    glue.before = on("update_table", lambda: glue.commit("s3://b/new"), times=1000)
    with pytest.raises(CommitConflictError, match="other writers changed it"):
        store.drop(OLD)
    assert glue.locations() == {"t": "s3://b/new"}


@pytest.mark.parametrize("operation", ["update_table", "delete_table"])
@pytest.mark.parametrize("code", LATER)
def test_a_drop_whose_replies_are_lost_is_a_drop(store: GlueCatalogStore, glue: Glue, operation: str, code: str) -> None:
    glue.after = on(operation, failing(code, repeated=operation == "update_table"))
    assert store.drop(OLD, expected=LOCATION)
    assert glue.locations() == {}


@pytest.mark.parametrize("operation", ["update_table", "delete_table"])
def test_a_drop_that_is_denied_leaves_the_table(store: GlueCatalogStore, glue: Glue, operation: str) -> None:
    glue.before = on(operation, failing("AccessDeniedException"))
    with pytest.raises(StoragePermissionError, match="not dropped"):
        store.drop(OLD, expected=LOCATION)
    assert glue.locations() == {"t": LOCATION}
    assert "icefloe.dropped-by" not in glue.tables["t"]["Parameters"]


def test_a_drop_that_ends_between_its_steps_is_named_with_the_last_metadata_file(store: GlueCatalogStore, glue: Glue) -> None:
    glue.before = on("delete_table", failing(""), times=1000)
    with pytest.raises(UnfinishedDropError) as raised:
        store.drop(OLD)
    glue.before = lambda _: None
    assert raised.value.path == LOCATION
    with pytest.raises(UnfinishedDropError) as raised:
        store.load(OLD)
    assert raised.value.path == LOCATION
    assert store.list_tables(("db",)) == []
    assert store.drop(OLD)
    assert glue.locations() == {}


def test_a_drop_that_cannot_be_looked_up_may_have_been_made(store: GlueCatalogStore, glue: Glue) -> None:
    def lose() -> None:
        glue.before = on("get_table", failing(""))
        failing("")()

    glue.after = on("update_table", lose)
    with pytest.raises(CommitUnknownError, match="may have been dropped"):
        store.drop(OLD)


def test_a_table_that_does_not_exist_cannot_be_dropped(store: GlueCatalogStore) -> None:
    with pytest.raises(IcefloeError, match=r"the namespace holds db\.t|does not exist"):
        store.drop(("db", "none"))


def test_the_folder_and_the_description_follow_the_metadata(glue: Glue, tmp_path: Path) -> None:
    catalog = GlueCatalog("lake", warehouse=str(tmp_path))
    catalog.store._glue = glue
    table = catalog.create_table("db.shown", pa.schema({"n": pa.int64()}), properties={"comment": "first"})

    def shown() -> tuple[str, str | None]:
        found = glue.tables["shown"]
        return found["StorageDescriptor"]["Location"], found.get("Description")

    folder = f"{tmp_path}/db.db/shown"
    assert shown() == (folder, "first")
    table.set_properties({"comment": "second"})
    assert shown() == (folder, "second")
    table.set_properties({"other": "x"})
    assert shown() == (folder, "second")
    table.update_location(f"{tmp_path}/moved")
    assert shown() == (f"{tmp_path}/moved", "second")
    table.remove_properties("comment")
    assert shown() == (f"{tmp_path}/moved", None)


def test_a_description_that_a_console_has_set_stays(glue: Glue, tmp_path: Path) -> None:
    catalog = GlueCatalog("lake", warehouse=str(tmp_path))
    catalog.store._glue = glue
    table = catalog.create_table("db.shown", pa.schema({"n": pa.int64()}))
    glue.tables["shown"]["Description"] = "of a console"
    table.set_properties({"other": "x"})
    table.remove_properties("other")
    with table.update_schema() as update:
        update.add_column("m", "string")
    assert glue.tables["shown"]["Description"] == "of a console"
