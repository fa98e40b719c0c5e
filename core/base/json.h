// JSON that may come from anywhere: everything that memtune parses as JSON goes through here.
//
// nlohmann's values are copied, printed and destroyed by recursion, so that text nested deep enough ends the process;
// and it turns numbers beyond a type's range into any other. Errors are nlohmann::json::exception, as those of at() and
// get() are: a parse_error for what is no JSON; for what is JSON and not taken, one whose what() says so in words.
#pragma once

#include <cstdint>
#include <limits>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

#include "core/base/bounds.h"

namespace memtune {

inline constexpr int kMostNesting = 64;

// Of equal keys of one object the last counts; in what people write they are a mistake.
enum class EqualKeys { last_counts, refused };

nlohmann::json parse_json(std::string_view text, EqualKeys keys = EqualKeys::last_counts);

// Its text, for files and terminals alike: what is no UTF-8 is replaced; controls, ends of lines and marks that turn
// the direction of text are escaped (utf8.h). YAML, TOML and Python read its strings as JSON does. -1: on one line.
std::string print_json(const nlohmann::json& value, int indent = -1);

// Numbers come from outside only through these, within bounds (core/base/bounds.h).

// A number without a fraction from `least` to `most`.
int64_t whole(const nlohmann::json& value, int64_t least = -kMostCount, int64_t most = kMostCount);

// Of a program, whose constants are what they are: the end of a slice is the largest int64.
int64_t any_whole(const nlohmann::json& value);

// As whole(), of an int.
int whole_int(const nlohmann::json& value, int least = std::numeric_limits<int>::min(),
              int most = std::numeric_limits<int>::max());

// Any number from `least` to `most`; what is nearer to 0 than kLeastNumber is 0.
double number(const nlohmann::json& value, double least = -kMostNumber, double most = kMostNumber);

// What a model computed: of null, as infinities are written, and of what is beyond, NaN.
double number_or_nan(const nlohmann::json& value);

// The same of an object's field, which the error names; one that is missing is a json::out_of_range.
int64_t whole_at(const nlohmann::json& object, const char* key, int64_t least = -kMostCount, int64_t most = kMostCount);
int whole_int_at(const nlohmann::json& object, const char* key, int least = std::numeric_limits<int>::min(),
                 int most = std::numeric_limits<int>::max());
double number_at(const nlohmann::json& object, const char* key, double least = -kMostNumber, double most = kMostNumber);

}  // namespace memtune
