#include "core/base/json_object_reader.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text.h"

namespace memtune {
namespace {

using nlohmann::json;

std::string shown(const json& value) {
  std::string text = value.dump(-1, ' ', false, json::error_handler_t::replace);
  return text.size() <= 60 ? text : text.substr(0, 57) + "...";
}

[[noreturn]] void refuse(const std::string& path, const std::string& wanted, const json& value) {
  throw UsageError(path + " must be " + wanted + ", not " + shown(value));
}

// The general bounds of core/base/bounds.h are named only if they were exceeded.
std::string integer_form(int64_t least, int64_t most, bool too_low, bool too_high) {
  std::string form = "an integer";
  if (too_low || (least != -kMaxCount && least != std::numeric_limits<int>::min()))
    form += " from " + std::to_string(least);
  if (too_high || (most != kMaxCount && most != std::numeric_limits<int>::max())) form += " to " + std::to_string(most);
  return form;
}

int64_t integer(const std::string& path, const json& value, int64_t least, int64_t most) {
  const bool fits = value.is_number_unsigned() ? value.get<uint64_t>() <= uint64_t(std::numeric_limits<int64_t>::max())
                                               : value.is_number_integer();
  const bool too_high = value.is_number_integer() && (!fits || value.get<int64_t>() > most);
  const bool too_low = fits && value.get<int64_t>() < least;
  if (!fits || too_high || too_low) refuse(path, integer_form(least, most, too_low, too_high), value);
  return value.get<int64_t>();
}

std::string text(const std::string& path, const json& value) {
  if (!value.is_string()) refuse(path, "a text", value);
  return value.get<std::string>();
}

bool boolean(const std::string& path, const json& value) {
  if (!value.is_boolean()) refuse(path, "true or false", value);
  return value.get<bool>();
}

}  // namespace

json parse_json_object(const std::string& name, std::string_view text) {
  json parsed;
  try {
    parsed = parse_json(text, JsonDuplicateKeyPolicy::refused);
  } catch (const json::parse_error& error) {
    throw UsageError(name + not_json_text(text, error.byte));
  } catch (const json::exception& error) {
    throw UsageError(name + ": " + error.what());
  }
  if (!parsed.is_object()) throw UsageError(name + " must be an object");
  return parsed;
}

JsonObjectReader::JsonObjectReader(const json& json, std::string path) : json_(json), path_(std::move(path)) {
  if (!json_.is_object()) refuse(path_, "an object", json_);
}

std::string JsonObjectReader::path(const std::string& key, size_t index) const {
  return path(key) + "[" + std::to_string(index) + "]";
}

const json* JsonObjectReader::find(const char* key) {
  known_.push_back(key);
  const auto field = json_.find(key);
  return field == json_.end() ? nullptr : &*field;
}

const json& JsonObjectReader::array(const char* key) {
  static const json empty = json::array();
  const json* value = find(key);
  if (value == nullptr) return empty;
  if (!value->is_array()) refuse(path(key), "an array", *value);
  return *value;
}

void JsonObjectReader::read(const char* key, std::string& out) {
  if (const json* value = find(key)) out = text(path(key), *value);
}

void JsonObjectReader::read(const char* key, bool& out) {
  if (const json* value = find(key)) out = boolean(path(key), *value);
}

void JsonObjectReader::read(const char* key, double& out, double least, double most) {
  const json* value = find(key);
  if (value == nullptr) return;
  if (!value->is_number()) refuse(path(key), "a number", *value);
  const double read = value->get<double>();
  if (!(read >= least && read <= most))
    refuse(path(key), "a number from " + json(least).dump() + " to " + json(most).dump(), *value);
  out = std::abs(read) < kMinNumber ? 0 : read;
}

void JsonObjectReader::read(const char* key, int64_t& out, int64_t least, int64_t most) {
  if (const json* value = find(key)) out = integer(path(key), *value, least, most);
}

void JsonObjectReader::read(const char* key, int& out, int least, int most) {
  if (const json* value = find(key)) out = static_cast<int>(integer(path(key), *value, least, most));
}

void JsonObjectReader::read(const char* key, std::vector<std::string>& out) {
  if (!json_.contains(key)) return void(find(key));
  out.clear();
  for (const json& element : array(key)) out.push_back(text(path(key, out.size()), element));
}

void JsonObjectReader::read(const char* key, std::vector<int64_t>& out, int64_t least) {
  if (!json_.contains(key)) return void(find(key));
  out.clear();
  for (const json& element : array(key)) out.push_back(integer(path(key, out.size()), element, least, kMaxCount));
}

void JsonObjectReader::read(const char* key, std::vector<int>& out, int least, int most) {
  if (!json_.contains(key)) return void(find(key));
  out.clear();
  for (const json& element : array(key))
    out.push_back(static_cast<int>(integer(path(key, out.size()), element, least, most)));
}

void JsonObjectReader::read(const char* key, std::vector<bool>& out) {
  if (!json_.contains(key)) return void(find(key));
  out.clear();
  for (const json& element : array(key)) out.push_back(boolean(path(key, out.size()), element));
}

void JsonObjectReader::require(std::initializer_list<const char*> keys) const {
  for (const char* key : keys)
    if (!json_.contains(key)) throw UsageError(path(key) + " is missing");
}

void JsonObjectReader::finish(UnknownFieldPolicy unknown) const {
  if (unknown == UnknownFieldPolicy::passed_over) return;
  for (const auto& [key, value] : json_.items())
    if (std::find(known_.begin(), known_.end(), key) == known_.end())
      throw UsageError(unknown_name("field of " + path_, key, known_));
}

}  // namespace memtune
