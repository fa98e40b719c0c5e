// What the parameters of the strategies take: one of these forms, or the words of an enumeration with " | " between.
#pragma once

namespace memtune::plan {

constexpr const char* kBytes = "bytes, as 512MiB";
constexpr const char* kOps = "matmul, matmul-all, attention or op names, with + between";
constexpr const char* kShare = "a number from 0 to 1";
constexpr const char* kCount = "a whole number from 0";
constexpr const char* kPositive = "a whole number from 1";
constexpr const char* kRanges = "all, or 0-9:12:20-";

}  // namespace memtune::plan
