// Proofs that a peer knows the secret of a launch. The secret itself is never sent. Thread: any.
#pragma once

#include <string>
#include <string_view>

namespace memtune::launch {

// A number that was never used before, in hex. The peer's proof has to cover it, so that no proof can be used again.
std::string make_nonce();

// HMAC-SHA-256 of `text` in hex. An empty secret gives a proof that anyone can make.
std::string prove(std::string_view secret, std::string_view text);

// Takes equally long wherever a wrong proof differs.
bool is_proof(std::string_view proof, std::string_view secret, std::string_view text);

}  // namespace memtune::launch
