// Why: the first host in Slurm's list has rank 0. With a wrong host name, ranks wait two minutes for nothing.
#include "core/sweep/launch/host_list.h"

#include <doctest/doctest.h>

#include "core/base/error.h"
namespace memtune::launch::host_list_test {
namespace {

using Names = std::vector<std::string>;

TEST_CASE("host lists are expanded in order and numbers keep leading zeros") {
  CHECK(expand_hosts("login") == Names{"login"});
  CHECK(expand_hosts("a.cluster,b-2_x") == Names{"a.cluster", "b-2_x"});
  CHECK(expand_hosts("node[001-003,7],gpu1") == Names{"node001", "node002", "node003", "node7", "gpu1"});
  CHECK(expand_hosts("n[08-11]-ib") == Names{"n08-ib", "n09-ib", "n10-ib", "n11-ib"});
  CHECK(expand_hosts("r[1-2]n[3-4]") == Names{"r1n3", "r1n4", "r2n3", "r2n4"});
  CHECK(expand_hosts("n[99-101]") == Names{"n99", "n100", "n101"});
}

TEST_CASE("an invalid host list is rejected and so is one that would expand too far") {
  for (const char* text : {"",
                           "a,,b",
                           ",a",
                           "a[",
                           "a]",
                           "a[1",
                           "a[[1]]",
                           "a[]",
                           "a[1-]",
                           "a[-1]",
                           "a[2-1]",
                           "a[1,]",
                           "a[x]",
                           "a b",
                           "a[1-99999999]",
                           "a[1-9999]b[1-9999]",
                           "a[1-60000],b[1-60000]",
                           "a[0000000000001]",
                           "a[1-3-5]",
                           "a/b",
                           "a[99999999999]"})
    CHECK_THROWS_AS_MESSAGE(expand_hosts(text), UsageError, text);
  CHECK_THROWS_AS(expand_hosts(std::string(256, 'a')), UsageError);
  CHECK_THROWS_AS(expand_hosts(std::string(200, 'a') + "[1]" + std::string(200, 'a')), UsageError);
  CHECK_THROWS_WITH_AS(expand_hosts("a[1"), "'a[1' is no list of hosts", UsageError);
}

TEST_CASE("task counts are expanded") {
  CHECK(expand_counts("4") == std::vector<int>{4});
  CHECK(expand_counts("2(x3),1") == std::vector<int>{2, 2, 2, 1});
  for (const char* text :
       {"", "x", "2(x", "2(x3", "2(3)", "2(x3)4", "-1", "1,", "2(x-1)", "2(x99999999)", "99999999999"})
    CHECK_THROWS_AS_MESSAGE(expand_counts(text), UsageError, text);
}

}  // namespace
}  // namespace memtune::launch::host_list_test
