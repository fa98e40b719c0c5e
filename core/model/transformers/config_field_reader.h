// Access to the fields of one config.json, shared by the parts of its reader.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/base/json_object_reader.h"
#include "core/model/transformers/transformers_family_conventions.h"

namespace memtune::model {

constexpr int64_t kMaxSize = int64_t{1} << 24;  // keeps products of two sizes far below overflow

bool has_text_config(const nlohmann::json& whole);
// The known model_type of a multimodal model's text: of its text_config, or by its name, where older files have the
// fields of the text at the top. "" if there is none.
std::string text_type_of(const nlohmann::json& whole);

class ConfigFieldReader {
 public:
  // `name` starts every message. `given` must outlive this; a text_config may leave out more than a whole file. Throws
  // UsageError if the model_type is unknown.
  ConfigFieldReader(std::string name, const nlohmann::json& given, bool is_text_config);
  ~ConfigFieldReader();
  ConfigFieldReader(const ConfigFieldReader&) = delete;
  ConfigFieldReader& operator=(const ConfigFieldReader&) = delete;

  const TransformersFamilyConventions& family() const { return *family_; }
  JsonObjectReader& object() { return object_; }

  // null counts as missing, except in was_null().
  bool has(const char* field) const;
  const nlohmann::json& operator[](const char* field) const;  // the field must exist
  bool was_null(const char* field) const;

  // A required size, at least 1.
  int64_t size(const char* field, int64_t most = kMaxSize);
  bool chosen(const BooleanConfigFieldWithDefault& choice);
  // From 0 to below 1. Returns the family's default if `field` is missing, 0 if it is "".
  double dropout(const char* field);

  const std::string& name() const { return name_; }
  [[noreturn]] void refuse(const std::string& field, const std::string& why) const;

 private:
  std::string name_;
  const nlohmann::json& given_;
  std::unique_ptr<const nlohmann::json> known_;
  JsonObjectReader object_;
  const TransformersFamilyConventions* family_;
};

}  // namespace memtune::model
