#include "core/model/transformers/config_field_reader.h"

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json.h"
#include "core/base/text.h"

namespace memtune::model {
namespace {

using nlohmann::json;

// Removes null fields, recursively.
json without_nulls(const json& object) {
  json kept = json::object();
  for (const auto& [key, value] : object.items())
    if (!value.is_null()) kept[key] = value.is_object() ? without_nulls(value) : value;
  return kept;
}

// Classes with names of their own take the usual names, too.
void add_own_names(json& fields, const ConfigFieldNames& names) {
  const ConfigFieldNames usual;
  const std::pair<const char*, const char*> both[] = {{names.hidden, usual.hidden},
                                                      {names.hidden, names.old_hidden},
                                                      {names.layers, usual.layers},
                                                      {names.heads, usual.heads},
                                                      {names.positions, "max_position_embeddings"}};
  for (const auto& [own, other] : both)
    if (*own && !fields.contains(own) && fields.contains(other)) fields[own] = fields[other];
}

// Adds what the class fills in. A config inside of a multimodal one has only the fields that differ from it.
json with_defaults(json fields, const json& given, bool is_text_config) {
  const auto type = fields.find("model_type");
  const TransformersFamilyConventions* const family =
      type != fields.end() && type->is_string() ? find_transformers_family(type->get<std::string>()) : nullptr;
  if (!family) return fields;
  json whole = json::object();
  if (!family->defaults.empty()) whole = parse_json(std::string(family->defaults));
  if (is_text_config && !family->text_defaults.empty()) whole.update(parse_json(std::string(family->text_defaults)));
  for (const auto& [key, value] : given.items())
    if (value.is_null()) whole.erase(key);
  if (fields.contains("rope_scaling") || fields.contains("rope_theta")) whole.erase("rope_parameters");
  whole.update(fields);
  add_own_names(whole, family->fields);
  return whole;
}

std::string way_out(const json& known) {
  const std::string text = text_type_of(known);
  if (!text.empty()) return ". --text-only measures its text model, " + text;
  return ". memtune convert makes a model.pt2 of most others";
}

const TransformersFamilyConventions* family_of(const std::string& name, JsonObjectReader& object, const json& fields) {
  object.require({"model_type"});
  std::string type;
  object.read("model_type", type);
  if (const TransformersFamilyConventions* family = find_transformers_family(type)) return family;
  std::vector<std::string> known;
  for (const TransformersFamilyConventions& family : transformers_families()) known.emplace_back(family.model_type);
  throw UsageError(name + ": " + unknown_name("model_type", type, known) + way_out(fields));
}

}  // namespace

bool has_text_config(const json& whole) { return whole.contains("text_config") && whole["text_config"].is_object(); }

std::string text_type_of(const json& whole) {
  const json& fields = has_text_config(whole) ? whole["text_config"] : whole;
  const auto type = fields.find("model_type");
  if (type == fields.end() || !type->is_string()) return "";
  const std::string name = type->get<std::string>() + (&fields == &whole ? "_text" : "");
  return find_transformers_family(name) ? name : "";
}

ConfigFieldReader::ConfigFieldReader(std::string name, const json& given, bool is_text_config)
    : name_(std::move(name)),
      given_(given),
      known_(std::make_unique<const json>(with_defaults(without_nulls(given), given, is_text_config))),
      object_(*known_, name_),
      family_(family_of(name_, object_, *known_)) {}

ConfigFieldReader::~ConfigFieldReader() = default;

bool ConfigFieldReader::has(const char* field) const { return known_->contains(field); }

const json& ConfigFieldReader::operator[](const char* field) const { return known_->at(field); }

bool ConfigFieldReader::was_null(const char* field) const {
  return given_.contains(field) && given_.at(field).is_null();
}

int64_t ConfigFieldReader::size(const char* field, int64_t most) {
  int64_t value = 0;
  object_.require({field});
  object_.read(field, value, 1, most);
  return value;
}

bool ConfigFieldReader::chosen(const BooleanConfigFieldWithDefault& choice) {
  bool value = choice.otherwise;
  if (*choice.field) object_.read(choice.field, value);
  return value;
}

double ConfigFieldReader::dropout(const char* field) {
  if (!*field) return 0;
  double part = family_->dropout;
  object_.read(field, part);
  if (!(part >= 0 && part < 1)) refuse(field, "must be from 0 to below 1");
  return part;
}

void ConfigFieldReader::refuse(const std::string& field, const std::string& why) const {
  throw UsageError(name_ + "." + field + ": " + why);
}

}  // namespace memtune::model
