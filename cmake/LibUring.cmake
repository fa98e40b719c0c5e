# uring::uring, static if an archive exists, so that the installed tool does not depend on it.
find_path(URING_INCLUDE_DIR liburing.h REQUIRED)
find_library(URING_LIBRARY NAMES liburing.a uring REQUIRED)
if(TARGET uring::uring)
  return()
endif()
add_library(uring::uring UNKNOWN IMPORTED GLOBAL)
set_target_properties(uring::uring PROPERTIES IMPORTED_LOCATION "${URING_LIBRARY}"
                      INTERFACE_INCLUDE_DIRECTORIES "${URING_INCLUDE_DIR}")
