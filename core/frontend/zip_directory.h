// How much a zip archive says that it becomes, from its directory alone: nothing is unpacked to find out.
#pragma once

#include <cstdint>
#include <optional>

#include "core/base/file.h"

namespace memtune::frontend {

// The sum over all records, those that overlap counted each; nothing where the directory cannot be read. IoError.
std::optional<int64_t> unpacked_bytes(const InputFile& archive);

}  // namespace memtune::frontend
