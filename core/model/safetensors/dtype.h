// Element types of safetensors files.
#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

namespace memtune::safetensors {

enum class Dtype { boolean, u8, i8, i16, f16, bf16, i32, f32, i64, f64 };

std::string_view to_string(Dtype dtype);  // "F32"
std::optional<Dtype> parse_dtype(std::string_view text);
int64_t bytes_of(Dtype dtype);  // one element

}  // namespace memtune::safetensors
