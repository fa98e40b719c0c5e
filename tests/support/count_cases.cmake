# Fails unless ctest runs each case of a doctest program: special characters in a name may break discovery.
#
#   cmake -D PROGRAM=FILE -D BUILD=FOLDER -P count_cases.cmake
execute_process(COMMAND "${PROGRAM}" --count OUTPUT_VARIABLE said COMMAND_ERROR_IS_FATAL ANY)
string(REGEX MATCH "current filters: ([0-9]+)" found "${said}")
set(cases "${CMAKE_MATCH_1}")
# In a folder of its own: ctest writes its log where it is started, over that of the run that this is a test of.
string(RANDOM LENGTH 12 name)
set(folder "${BUILD}/Testing/count-cases-${name}")
file(WRITE "${folder}/CTestTestfile.cmake" "subdirs([==[${BUILD}]==])\n")
execute_process(COMMAND "${CMAKE_CTEST_COMMAND}" --test-dir "${folder}" --show-only=json-v1
                OUTPUT_VARIABLE entries COMMAND_ERROR_IS_FATAL ANY)
file(REMOVE_RECURSE "${folder}")
string(REPLACE "\"${PROGRAM}\"" "<program>" entries "${entries}")
string(REGEX MATCHALL "<program>,[ \t\r\n]*\"--test-case=" entries "${entries}")
list(LENGTH entries entries)
message("${PROGRAM}: ${cases} cases, ${entries} entries of ctest")
if(NOT cases OR NOT cases EQUAL entries)
  message(FATAL_ERROR "ctest does not run each case once")
endif()
