// A trainer's configuration with some of its keys replaced: the rest, comments included, stays as the person wrote it.
#pragma once

#include <string>

namespace memtune::trainer {

// `keys` is what export_config writes: comments, then top-level keys. Each takes the place of the one of that name in
// `config`, or comes at its end; the comments stand above the first. UsageError naming `name`, the file, where it is no
// YAML document with one key a line at its top.
std::string merge(const std::string& config, const std::string& keys, const std::string& name);

}  // namespace memtune::trainer
