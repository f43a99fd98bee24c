"""`LocationProvider`: the locations of a table's new files, with the methods of PyIceberg's class. Icefloe's own writers use `table_handle.py` instead."""

from dataclasses import dataclass

from icefloe.io.locations import join


@dataclass(frozen=True, slots=True)
class LocationProvider:
    """Returns locations for new files: in the folders `write.data.path` and `write.metadata.path`, or in the default folders under the table's location."""

    table_location: str
    data_path: str
    metadata_path: str

    def new_data_location(self, data_file_name: str, partition_folder: str = "") -> str:
        """Return the location of a new data file.

        Args:
            data_file_name: the file's name.
            partition_folder: the folder of its partition, such as `day=2024-01-31`; empty without partitions.
        """
        return join(self.data_path, partition_folder, data_file_name) if partition_folder else join(self.data_path, data_file_name)

    def new_metadata_location(self, metadata_file_name: str) -> str:
        """Return the location of a new metadata file.

        Args:
            metadata_file_name: the file's name.
        """
        return join(self.metadata_path, metadata_file_name)
