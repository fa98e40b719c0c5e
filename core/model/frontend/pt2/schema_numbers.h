// Converts the numbers of torch.export's schema to LibTorch's enums.
#pragma once

#include <c10/core/Layout.h>
#include <c10/core/MemoryFormat.h>
#include <c10/core/ScalarType.h>

#include <cstdint>

namespace memtune::frontend {

// Each throws UsageError for a number that the schema does not have.
at::ScalarType scalar_type_of(int64_t number);
at::Layout layout_of(int64_t number);
at::MemoryFormat memory_format_of(int64_t number);

}  // namespace memtune::frontend
