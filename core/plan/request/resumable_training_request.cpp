#include "core/plan/request/resumable_training_request.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/base/json_object_reader.h"
#include "core/base/text.h"
#include "core/base/vocabulary.h"

namespace memtune::plan {

std::map<std::string, std::string> resume_settings(const ModelAndInputSource& model, const TrainingSettings& training) {
  std::vector<std::string> inputs = model.arguments;
  for (const InputSpec& input : model.inputs) inputs.push_back(to_string(input));
  const nlohmann::json settings = {{"--accumulate", training.accumulate},
                                   {"--attention", training.attention},
                                   {"--autocast", training.autocast},
                                   {"--batch", training.batch},
                                   {"--dtype", training.dtype},
                                   {"--input", join(inputs, " ")},
                                   {"--load-in", training.load_in},
                                   {"--lora", training.lora},
                                   {"--loss", training.loss},
                                   {"--loss-impl", training.loss_impl},
                                   {"--lr", training.learning_rate},
                                   {"--max-grad-norm", training.max_grad_norm},
                                   {"--optimizer", training.optimizer},
                                   {"--output", training.output},
                                   {"--pack", training.pack},
                                   {"--padding", training.padding},
                                   {"--seed", training.seed},
                                   {"--seq", training.sequence},
                                   {"--target", training.target}};
  std::map<std::string, std::string> course;
  for (const auto& [flag, value] : settings.items())
    course[flag] = value.is_string() ? value.get<std::string>() : value.dump();
  if (training.ranks > 1) {
    course["--shard-dtype"] = training.shard_dtype;
    course["--reduce-dtype"] = training.reduce_dtype;
  }
  return course;
}

void to_json(nlohmann::json& json, const ResumableTrainingRequest& request) {
  json = {{"trial", request.trial}, {"folder", request.folder},       {"save_every", request.save_every},
          {"save", request.save},   {"keep_last", request.keep_last}, {"resume", request.resume},
          {"saves", request.saves}};
  if (request.from) json["from"] = *request.from;
}

void from_json(const nlohmann::json& json, ResumableTrainingRequest& request) {
  request = {};
  JsonObjectReader object(json, "request");
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

}  // namespace memtune::plan
