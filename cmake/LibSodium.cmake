# sodium::sodium, static if an archive exists, so that the installed tool does not depend on it.
find_path(SODIUM_INCLUDE_DIR sodium.h REQUIRED)
find_library(SODIUM_LIBRARY NAMES libsodium.a sodium REQUIRED)
if(TARGET sodium::sodium)
  return()
endif()
add_library(sodium::sodium UNKNOWN IMPORTED GLOBAL)
set_target_properties(sodium::sodium PROPERTIES IMPORTED_LOCATION "${SODIUM_LIBRARY}"
                      INTERFACE_INCLUDE_DIRECTORIES "${SODIUM_INCLUDE_DIR}")
