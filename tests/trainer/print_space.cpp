// memtune-print-space TRAINER FILE|"" [--optimizer] [--release PACKAGE=RELEASE]... [COMMAND...]: prints a trainer's
// config space as JSON, with the export of each of its strategies, for tests in Python. With --native, prints the
// file's training settings as flags of memtune. With --values, prints the settings themselves.
#include <algorithm>
#include <exception>
#include <filesystem>
#include <iostream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/answer/trainer/config_to_flags_translation.h"
#include "core/answer/trainer/editable_user_trainer_settings.h"
#include "core/answer/trainer/trainer_batch_and_save_keys.h"
#include "core/answer/trainer/trainer_config_variants.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/text.h"
#include "tests/report/sample.h"

using namespace memtune;

namespace {

constexpr const char* kStrategies[] = {"none",
                                       "checkpoint:full",
                                       "checkpoint:full,inputs=host",
                                       "checkpoint:full,blocks=0-1",
                                       "checkpoint:megatron-uniform,layers=2",
                                       "checkpoint:every=2",
                                       "checkpoint:every=2,inputs=host",
                                       "checkpoint:op",
                                       "checkpoint:op,save=attention",
                                       "checkpoint:op,save=attention,inputs=host",
                                       "checkpoint:op,save=matmul-all+attention",
                                       "checkpoint:op,save=silu+bmm"};

// Each strategy is the only one measured, so that no other is exported in its place; on one rank and on several.
nlohmann::json exports(const std::string& trainer, const trainer::ConfigExportReleasesAndUserConfig& settings) {
  nlohmann::json all = nlohmann::json::array();
  for (const char* reshard : {"", "always", "after-backward"})
    for (const char* strategy : kStrategies) try {
        report::Report report;
        report.blocks = 4;
        report.reshard = reshard;
        report.rows = {report::worked(strategy, 100, 1, report::kGiB)};
        all.push_back({{"strategy", strategy},
                       {"text", trainer::export_config(trainer, report.rows.front(), report, settings).text}});
      } catch (const UsageError&) {
      }
  return all;
}

}  // namespace

int main(int count, char** words) {
  std::vector<std::string> arguments(words + 1, words + count);
  if (arguments.size() < 2) return 2;
  try {
    const std::string trainer = arguments[0], file = arguments[1];
    arguments.erase(arguments.begin(), arguments.begin() + 2);
    if (std::erase(arguments, "--native") > 0) {
      nlohmann::json flags = nlohmann::json::object();
      for (const trainer::MemtuneFlagFromConfig& flag : trainer::native_flags(trainer, read_file(file), file).flags)
        flags[flag.name] = flag.value;
      std::cout << print_json(flags, 1) << "\n";
      return 0;
    }
    if (std::erase(arguments, "--values") > 0) {
      const trainer::TrainerProfile profile = trainer::read_space_profile(trainer);
      std::cout << print_json(trainer::EditableUserTrainerSettings(profile, read_file(file), file, {}, profile.releases)
                                  .whole())
                << "\n";
      return 0;
    }
    trainer::TrainerConfigVariantGenerationOptions settings;
    settings.optimizer = std::erase(arguments, "--optimizer") > 0;
    for (auto flag = std::ranges::find(arguments, "--release"); flag != arguments.end();
         flag = std::ranges::find(arguments, "--release")) {
      const std::vector<std::string> release = split(*std::next(flag), '=');
      settings.releases[release.at(0)] = release.at(1);
      arguments.erase(flag, flag + 2);
    }
    settings.command = arguments;
    const std::string text = file.empty() ? "" : read_file(file);
    const trainer::TrainerConfigVariants space = trainer::make_space(trainer, text, file, settings);
    nlohmann::json json = {
        {"file_name", space.file_name}, {"variants", nlohmann::json::array()}, {"skipped", nlohmann::json::array()}};
    trainer::ConfigExportReleasesAndUserConfig exported{settings.releases, text, file};
    const bool is_older = trainer == "torchtitan-0.2";  // one trainer with two descriptions
    if (is_older) exported.releases = {{"", "0.2.2"}};
    json["exports"] = exports(is_older ? "torchtitan" : trainer, exported);
    for (const trainer::TrainerConfigVariant& one : space.variants)
      json["variants"].push_back({{"name", one.name}, {"config", one.config}, {"arguments", one.arguments}});
    for (const trainer::SkippedTrainerConfigVariant& one : space.skipped)
      json["skipped"].push_back({{"name", one.name}, {"reason", one.reason}});
    std::cout << print_json(json, 1) << "\n";
    return 0;
  } catch (const std::exception& error) {
    std::cerr << error.what() << "\n";
    return 2;
  }
}
