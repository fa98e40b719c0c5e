// Hashes name trials across runs and machines, so their values are part of the file format.
#include "core/base/hash.h"

#include <doctest/doctest.h>

namespace memtune::hash_test {

using namespace memtune;

TEST_CASE("a hash is the published XXH3-128 value") {
  CHECK(hash_hex("") == "99aa06d3014798d86001c324468d497f");
  CHECK(hash_hex("abc") == "06b05ab6733a618578af5f94892f3950");
  CHECK(hash_hex(nullptr, 0) == hash_hex(""));
}

TEST_CASE("one changed byte changes the hash") {
  CHECK(hash_hex("abd") != hash_hex("abc"));
  CHECK(hash_hex("abc").size() == 32);
}

TEST_CASE("the short hash is the published XXH3-64 value and depends on the seed") {
  CHECK(hash64("", 0, 0) == 0x2d06800538d394c2);
  CHECK(hash64("abc", 3, 0) == 0x78af5f94892f3950);
  CHECK(hash64("abc", 3, 1) != hash64("abc", 3, 0));
}

}  // namespace memtune::hash_test
