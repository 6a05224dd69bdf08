# find_package(tidesdb CONFIG) gives the targets tidesdb::tidesdb, the shared library, and tidesdb::tidesdb-static.
# Stands in LIBDIR/cmake/tidesdb of an installation, which may be moved as a whole.
get_filename_component(_tidesdb_lib "${CMAKE_CURRENT_LIST_DIR}/../.." ABSOLUTE)
get_filename_component(_tidesdb_include "${_tidesdb_lib}/@INCLUDE@" ABSOLUTE)
find_package(Threads REQUIRED)

if(NOT TARGET tidesdb::tidesdb)
  add_library(tidesdb::tidesdb SHARED IMPORTED)
  set_target_properties(tidesdb::tidesdb PROPERTIES
    IMPORTED_LOCATION "${_tidesdb_lib}/libtidesdb.so.@VERSION@"
    IMPORTED_SONAME libtidesdb.so.0
    INTERFACE_INCLUDE_DIRECTORIES "${_tidesdb_include}")
  add_library(tidesdb::tidesdb-static STATIC IMPORTED)
  set_target_properties(tidesdb::tidesdb-static PROPERTIES
    IMPORTED_LOCATION "${_tidesdb_lib}/libtidesdb.a"
    INTERFACE_INCLUDE_DIRECTORIES "${_tidesdb_include}"
    INTERFACE_LINK_LIBRARIES "Threads::Threads;${CMAKE_DL_LIBS};m")
endif()

unset(_tidesdb_lib)
unset(_tidesdb_include)
