#include "core/config/run_request.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/text.h"
#include "core/config/json_object.h"
#include "core/config/vocabulary.h"

namespace memtune::config {

void to_json(nlohmann::json& json, const RunRequest& request) {
  json = {{"trial", request.trial}, {"folder", request.folder},       {"save_every", request.save_every},
          {"save", request.save},   {"keep_last", request.keep_last}, {"resume", request.resume},
          {"saves", request.saves}};
  if (request.from) json["from"] = *request.from;
}

void from_json(const nlohmann::json& json, RunRequest& request) {
  request = {};
  JsonObject object(json, "request");
  object.require({"trial", "folder"});
  from_json(*object.find("trial"), request.trial);
  object.read("folder", request.folder);
  object.read("save_every", request.save_every, 0);
  object.read("save", request.save);
  if (std::ranges::find(kSaveModes, request.save) == kSaveModes.end())
    throw UsageError(unknown_name("way to save", request.save, kSaveModes));
  object.read("keep_last", request.keep_last, 0);
  object.read("resume", request.resume);
  object.read("saves", request.saves, 1);
  if (object.find("from")) object.read("from", request.from.emplace(), 0);
}

}  // namespace memtune::config
