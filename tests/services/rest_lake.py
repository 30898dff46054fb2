"""A lake in a REST catalog: pyiceberg talks to the service itself, lithify to whatever address a
test gives it."""

import pathlib

import cli
import iceberg_lake
import iceberg_tables as it


def quoted(*parts):
    return ".".join('"' + part.replace('"', '""') + '"' for part in parts)


class RestLake(iceberg_lake.Lake):
    """One namespace of a REST catalog; `address`: where lithify finds the catalog."""

    def __init__(self, catalog, address, namespace, env):
        self.address = address
        self.env = env
        super().__init__(None, catalog=catalog, namespace=namespace)

    @property
    def uri(self):
        return self.address

    def named(self, name):
        """As a person writes it."""
        return "lake." + quoted(*self.namespace, name)

    def run(self, command, name, *args, code=0, **kwargs):
        kwargs["env"] = {**self.env, **iceberg_lake.as_time_goes_by(command),
                         **kwargs.get("env", {})}
        return cli.run(command, self.named(name), *args, "--catalog-uri", self.uri, "--json",
                       code=code, **kwargs)

    def start(self, command, name, *args):
        return cli.start(command, self.named(name), *args, "--catalog-uri", self.uri, "--json",
                         env=self.env)

    def data_paths(self, name):
        """Every file in the table's data directory."""
        return {path for path in self.tree(name) if path.parts[0] == "data"}



def delete_rows(lake, name, positions):
    """A position delete file against each data file, one commit: `positions` of every file."""
    table = lake.load(name)
    files = [it.position_delete_file(table, [(path, n) for n in positions], partition)
             for path, _, partition in it.data_files(table)]
    it.commit_deletes(table, files)


def local(path):
    return pathlib.Path(it.local(path))
