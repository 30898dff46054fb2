# DuckDB's C API as scripts/setup.sh unpacks it: DUCKDB_ROOT holds include/duckdb.h and
# lib/libduckdb.so of one version. Makes DuckDB::duckdb.
set(DUCKDB_ROOT "" CACHE PATH "unpacked DuckDB")
find_path(DuckDB_INCLUDE_DIR duckdb.h HINTS "${DUCKDB_ROOT}/include" NO_DEFAULT_PATH)
find_library(DuckDB_LIBRARY duckdb HINTS "${DUCKDB_ROOT}/lib" NO_DEFAULT_PATH)
mark_as_advanced(DuckDB_INCLUDE_DIR DuckDB_LIBRARY)
# Neither of the two says its version in a way that can be read here; the folder's name does.
string(REGEX MATCH "[0-9]+\\.[0-9]+\\.[0-9]+$" DuckDB_VERSION "${DUCKDB_ROOT}")
include(FindPackageHandleStandardArgs)
find_package_handle_standard_args(DuckDB REQUIRED_VARS DuckDB_LIBRARY DuckDB_INCLUDE_DIR
  VERSION_VAR DuckDB_VERSION)
if(DuckDB_FOUND AND NOT TARGET DuckDB::duckdb)
  add_library(DuckDB::duckdb SHARED IMPORTED GLOBAL)
  set_target_properties(DuckDB::duckdb PROPERTIES IMPORTED_LOCATION "${DuckDB_LIBRARY}"
    IMPORTED_NO_SONAME TRUE INTERFACE_INCLUDE_DIRECTORIES "${DuckDB_INCLUDE_DIR}"
    INTERFACE_SYSTEM_INCLUDE_DIRECTORIES "${DuckDB_INCLUDE_DIR}")
endif()
