# fyaml::fyaml, which reads YAML, static if an archive exists, so that the installed tool does not depend on it.
find_path(FYAML_INCLUDE_DIR libfyaml.h)
find_library(FYAML_LIBRARY NAMES libfyaml.a fyaml)
if(NOT FYAML_INCLUDE_DIR OR NOT FYAML_LIBRARY)
  message(FATAL_ERROR "libfyaml is missing, which reads YAML (Debian: libfyaml-dev)")
endif()
if(NOT TARGET fyaml::fyaml)
  add_library(fyaml::fyaml UNKNOWN IMPORTED GLOBAL)
  set_target_properties(fyaml::fyaml PROPERTIES IMPORTED_LOCATION "${FYAML_LIBRARY}"
                        INTERFACE_INCLUDE_DIRECTORIES "${FYAML_INCLUDE_DIR}")
endif()
