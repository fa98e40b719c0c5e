// Scalars of YAML 1.1, as PyYAML resolves them (https://yaml.org/type), and values as text for YAML and JSON.
#pragma once

#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>

namespace memtune::trainer {

inline constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";  // optional at the start of a file

// The value of a scalar without quotes. Dates, infinity and NaN stay text. "1e-5" is a number, although YAML 1.1 takes
// it for text, because the trainers' own classes make a number of it.
nlohmann::json plain_scalar(const std::string& text);

// One line. With `json` in JSON syntax; otherwise as YAML, without quotes if that reads back as the same text.
std::string write_value(const nlohmann::json& value, bool json);

}  // namespace memtune::trainer
