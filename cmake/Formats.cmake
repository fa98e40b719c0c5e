# Libraries that read formats of others, static if an archive exists, so that the installed tool does not depend on them:
# fyaml::fyaml (YAML) and pcre2::pcre2 (Python's regular expressions).
function(memtune_find_format name header library package)
  string(TOUPPER ${name} prefix)
  find_path(${prefix}_INCLUDE_DIR ${header})
  find_library(${prefix}_LIBRARY NAMES lib${library}.a ${library})
  if(NOT ${prefix}_INCLUDE_DIR OR NOT ${prefix}_LIBRARY)
    message(FATAL_ERROR "${header} or lib${library} is missing (Debian: ${package})")
  endif()
  if(NOT TARGET ${name}::${name})
    add_library(${name}::${name} UNKNOWN IMPORTED GLOBAL)
    set_target_properties(${name}::${name} PROPERTIES IMPORTED_LOCATION "${${prefix}_LIBRARY}"
                          INTERFACE_INCLUDE_DIRECTORIES "${${prefix}_INCLUDE_DIR}")
  endif()
endfunction()
memtune_find_format(fyaml libfyaml.h fyaml libfyaml-dev)
memtune_find_format(pcre2 pcre2.h pcre2-8 libpcre2-dev)
