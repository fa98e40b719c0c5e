// Parses and prints JSON, trusted or not. All JSON that memtune reads passes through here.
//
// nlohmann copies, prints and destroys values recursively, so deeply nested text would overflow the stack. It also
// converts out-of-range numbers silently. Both are checked here. Errors are nlohmann::json::exception, like those of
// at() and get(): parse_error for invalid JSON; for other refusals, an exception with a plain message.
#pragma once

#include <cstddef>
#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "core/base/bounds.h"

namespace memtune {

inline constexpr int kMaxNesting = 64;

// If an object repeats a key, the last value counts. In files that people write, a repeated key is a mistake.
enum class JsonDuplicateKeyPolicy { last_counts, refused };

// Throws nlohmann::json::exception, also for nesting deeper than kMaxNesting.
nlohmann::json parse_json(std::string_view text, JsonDuplicateKeyPolicy keys = JsonDuplicateKeyPolicy::last_counts);

// " is not JSON: line 3, 'BATCH_SIZE' is no value; a template's placeholders have to be replaced", or the line alone.
// `byte` is parse_error's.
std::string not_json_text(std::string_view text, size_t byte);

// Prints for files and terminals. Invalid UTF-8 is replaced. Control characters, line separators and bidirectional
// marks are escaped (utf8.h). YAML, TOML and Python read the strings as JSON does. `indent` -1 prints one line.
std::string print_json(const nlohmann::json& value, int indent = -1);

// Read numbers from JSON with these functions only; they check bounds (core/base/bounds.h) and throw json::exception.

// An integer from `least` to `most`.
int64_t whole(const nlohmann::json& value, int64_t least = -kMaxCount, int64_t most = kMaxCount);

// For constants in a program, which need all of int64_t: the end of a slice may be INT64_MAX.
int64_t any_whole(const nlohmann::json& value);

// whole() for an int.
int whole_int(const nlohmann::json& value, int least = std::numeric_limits<int>::min(),
              int most = std::numeric_limits<int>::max());

// Any number from `least` to `most`. Magnitudes below kMinNumber become 0.
double number(const nlohmann::json& value, double least = -kMaxNumber, double most = kMaxNumber);

// For results that a model computed. Returns NaN for null, which stands for infinity, and for numbers out of bounds.
double number_or_nan(const nlohmann::json& value);

// The functions above for a field of an object; the message names the field. A missing field is a json::out_of_range.
int64_t whole_at(const nlohmann::json& object, const char* key, int64_t least = -kMaxCount, int64_t most = kMaxCount);
int whole_int_at(const nlohmann::json& object, const char* key, int least = std::numeric_limits<int>::min(),
                 int most = std::numeric_limits<int>::max());
double number_at(const nlohmann::json& object, const char* key, double least = -kMaxNumber, double most = kMaxNumber);

}  // namespace memtune
