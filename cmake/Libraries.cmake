# Small libraries, static if an archive exists, so that the installed tool does not depend on them: fyaml::fyaml (YAML),
# pcre2::pcre2 (Python's regular expressions), sodium::sodium (proofs between ranks), uring::uring (the scratch file).
function(memtune_find_library name header library package)
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
memtune_find_library(fyaml libfyaml.h fyaml libfyaml-dev)
memtune_find_library(pcre2 pcre2.h pcre2-8 libpcre2-dev)
memtune_find_library(sodium sodium.h sodium libsodium-dev)
memtune_find_library(uring liburing.h uring liburing-dev)
