// Why: a proof that other text, another secret or an earlier connection also gives would let strangers in.
#include "core/sweep/launch/secret.h"

#include <doctest/doctest.h>

#include <set>

namespace memtune::launch::secret_test {
namespace {

TEST_CASE("a proof is HMAC-SHA-256") {  // RFC 4231, test cases 2 and 6
  CHECK(prove("Jefe", "what do ya want for nothing?") ==
        "5bdcc146bf60754e6a042426089575c75a003f089d2739839dec58b964ec3843");
  CHECK(prove(std::string(131, '\xaa'), "Test Using Larger Than Block-Size Key - Hash Key First") ==
        "60e431591ee0b67f0d8a26aacbf5b77f8e0bc6213728c5140546040f0ee37f54");
}

TEST_CASE("a proof holds only for its text and its secret") {
  const std::string proof = prove("secret", "text");
  CHECK(is_proof(proof, "secret", "text"));
  CHECK_FALSE(is_proof(proof, "secret", "texts"));
  CHECK_FALSE(is_proof(proof, "", "text"));
  CHECK_FALSE(is_proof(proof.substr(1), "secret", "text"));
  CHECK_FALSE(is_proof("", "secret", "text"));
}

TEST_CASE("nonces differ") {
  std::set<std::string> nonces;
  for (int i = 0; i < 100; ++i) nonces.insert(make_nonce());
  CHECK(nonces.size() == 100);
  CHECK(nonces.begin()->size() == 64);
}

}  // namespace
}  // namespace memtune::launch::secret_test
