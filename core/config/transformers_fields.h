// The fields of one config.json while they are read: what the parts of its reader share.
#pragma once

#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "core/config/json_object.h"
#include "core/config/transformers_family.h"

namespace memtune::config {

constexpr int64_t kMostOfSize = int64_t{1} << 24;  // keeps products of two sizes far from overflow

class TransformersFields {
 public:
  // `name` begins every message. `given` must outlive this. UsageError when its model_type is in no row.
  TransformersFields(std::string name, const nlohmann::json& given);
  ~TransformersFields();
  TransformersFields(const TransformersFields&) = delete;
  TransformersFields& operator=(const TransformersFields&) = delete;

  const TransformersFamily& family() const { return *family_; }
  JsonObject& object() { return object_; }

  // Null counts as missing, but for was_null().
  bool has(const char* field) const;
  const nlohmann::json& operator[](const char* field) const;  // which must be there
  bool was_null(const char* field) const;

  // A size that must be there, from 1 on.
  int64_t size(const char* field, int64_t most = kMostOfSize);
  bool chosen(const Choice& choice);
  // From 0 to below 1; what the family has when `field` is missing, 0 when it is "".
  double dropout(const char* field);

  const std::string& name() const { return name_; }
  [[noreturn]] void refuse(const std::string& field, const std::string& why) const;

 private:
  std::string name_;
  const nlohmann::json& given_;
  std::unique_ptr<const nlohmann::json> known_;
  JsonObject object_;
  const TransformersFamily* family_;
};

}  // namespace memtune::config
