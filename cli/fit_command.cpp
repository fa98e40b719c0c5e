#include <filesystem>
#include <iterator>
#include <nlohmann/json.hpp>

#include "cli/app.h"
#include "cli/flags.h"
#include "cli/offer.h"
#include "cli/option_groups.h"
#include "cli/progress.h"
#include "cli/sweep_flags.h"
#include "cli/trainer_config.h"
#include "core/answer/trainer/trainers.h"
#include "core/base/error.h"
#include "core/base/file.h"
#include "core/base/json.h"
#include "core/base/layout.h"
#include "core/base/text.h"
#include "core/plan/facts/machine_profile.h"
#include "core/sweep/predict/fastest_fitting_strategy_config_keys.h"
#include "core/sweep/predict/fit.h"
#include "core/sweep/predict/largest_fit.h"

namespace memtune::cli {
namespace {

constexpr char kFitDescription[] =
    R"(Predict memory and step time of a training on a GPU that is not here, without reading weights.

Examples:
  memtune fit path/to/llama --card rtx4090 --batch 1 --seq 4096
  memtune fit path/to/llama --card rtx4090 --batch auto --seq 4096  the largest batch that fits
  memtune fit path/to/llama --card all --dtype bf16 --lora r=16 --json -
  memtune fit path/to/llama --card rtx4090 --write plan.json       the best plan for that card, for sweep --plan
  memtune fit --trainer axolotl --config mine.yaml --card rtx4090  your trainer's config

MODEL is a folder with a config.json, that file, a name on the Hugging Face hub whose config is in the local cache, an
exported program or a TorchScript file. No GPU is needed, no weight is read, and nothing runs but shapes. memtune sweep on
the GPU measures what this predicts.)";

constexpr char kAll[] = "all";
constexpr char kAuto[] = "auto";

// Strategies whose largest batch is found, if none is given; those of the fallback come behind them.
constexpr const char* kOfLargest[] = {"none", "checkpoint:cheap", "checkpoint:full"};

// Flags of a sweep that mean nothing without trials.
constexpr const char* kOfTrials[] = {
    "--model",   "--inputs",  "--steps",       "--warmup", "--device",           "--memory-cap",
    "--timeout", "--scratch", "--disk-budget", "--out",    "--scratch-in-memory"};

struct FitFlags {
  SweepFlags sweep;
  std::string json, plan;
  std::vector<std::string> cards;
};

std::vector<plan::MachineProfile> cards_of(const std::vector<std::string>& flags) {
  std::vector<std::string> names;
  for (const std::string& list : flags)
    for (const std::string& name : split(list, ',')) names.push_back(trim(name));
  if (names == std::vector<std::string>{kAll}) names = plan::machine_names();
  if (names.empty()) throw UsageError("fit: --card names the GPU: " + join(plan::machine_names(), ", ") + ", or all");
  std::vector<plan::MachineProfile> cards;
  for (const std::string& name : names) cards.push_back(plan::find_machine(name));
  return cards;
}

// The axis whose value is "auto"; its flag then has none.
std::optional<sweep::LargestAxis> take_auto(SweepFlags& flags) {
  const std::vector<std::string> automatic = {kAuto};
  const bool batch = flags.model.batches == automatic, sequence = flags.model.sequences == automatic;
  if (batch && sequence) throw UsageError("--batch auto needs a length, and --seq auto a batch");
  if (!batch && !sequence) return {};
  (batch ? flags.model.batches : flags.model.sequences) = {};
  return batch ? sweep::LargestAxis::batch : sweep::LargestAxis::sequence;
}

constexpr char kOneAnswer[] =
    "--trainer without --config prints the keys of one answer: it goes with one --card, without auto";

bool prints_keys(const FitFlags& flags) { return !flags.sweep.trainer.empty() && flags.sweep.config.empty(); }

int find_largest(const FitFlags& flags, sweep::LargestAxis axis) {
  if (prints_keys(flags)) throw UsageError(kOneAnswer);
  if (!flags.plan.empty()) throw UsageError("--write writes the plan of one batch and length, and goes without auto");
  sweep::GpuMemoryFitRequest options{sweep_settings(flags.sweep), cards_of(flags.cards)};
  if (flags.sweep.strategies.empty()) options.sweep.strategies.assign(std::begin(kOfLargest), std::end(kOfLargest));
  Progress progress(flags.sweep.model.console);
  const auto report = sweep::find_largest_fit(options, axis, progress);
  progress.clear();
  if (!report) return kInterrupted;
  if (!flags.json.empty()) write_output(flags.json, print_json(sweep::to_json(*report), 2) + "\n");
  if (flags.json != "-") write_output("-", sweep::to_text(*report, table_style(flags.sweep.model.console)));
  return report->fastest ? kDone : kFailed;
}

std::optional<sweep::FastestFittingStrategyConfigKeys> keys_of(const FitFlags& flags,
                                                               const sweep::GpuMemoryFitReport& report) {
  const std::string& file = flags.sweep.config;
  if (flags.sweep.trainer.empty() || report.cards.size() != 1) return {};
  return sweep::config_keys_of_fit(report.cards.front(), flags.sweep.trainer, file.empty() ? "" : read_file(file),
                                   std::filesystem::path(file).filename().string(), report.blocks);
}

std::string text_of(const sweep::FastestFittingStrategyConfigKeys& keys, int width) {
  std::string text = keys.strategy.empty() ? "\n " + keys.trainer + " has keys for none that fits\n"
                                           : "\n keys of " + keys.trainer + " for " + keys.strategy + ":\n\n";
  for (const std::string& line : split(trim(keys.text), '\n')) text += line.empty() ? "" : "   " + line + "\n";
  for (const std::string& note : keys.notes)
    for (const std::string& line : wrap("note: " + note, width - 1)) text += " " + line + "\n";
  return text;
}

int run_command(FitFlags& flags) {
  if (const auto axis = take_auto(flags.sweep)) return find_largest(flags, *axis);
  const sweep::GpuMemoryFitRequest options{sweep_settings(flags.sweep), cards_of(flags.cards)};
  if (!flags.plan.empty() && options.cards.size() != 1)
    throw UsageError("--write writes one plan: it goes with one --card");
  if (prints_keys(flags)) {
    trainer::known_trainer(flags.sweep.trainer, {});  // throws for another name
    if (options.cards.size() != 1) throw UsageError(kOneAnswer);
  }
  check_outputs("--write", flags.plan, "--json", flags.json);
  Progress progress(flags.sweep.model.console);
  const auto report = sweep::predict_fit(options, progress);
  progress.clear();
  if (!report) return kInterrupted;
  if (const auto& plan = report->cards.front().plan; plan && !flags.plan.empty())
    write_output(flags.plan, print_json(nlohmann::json(*plan), 2) + "\n");
  const auto keys = keys_of(flags, *report);
  nlohmann::json answer = sweep::to_json(*report);
  if (keys)
    answer["keys"] = {
        {"trainer", keys->trainer}, {"strategy", keys->strategy}, {"text", keys->text}, {"notes", keys->notes}};
  if (!flags.json.empty()) write_output(flags.json, print_json(answer, 2) + "\n");
  const report::TerminalCapabilities style = table_style(flags.sweep.model.console);
  if (flags.json != "-" && flags.plan != "-")
    write_output("-", sweep::to_text(*report, style) + (keys ? text_of(*keys, style.width) : ""));
  return report->any_fits() ? kDone : kFailed;
}

}  // namespace

void add_fit(CLI::App& app, Action& action) {
  auto flags = std::make_shared<FitFlags>();
  CLI::App* command = app.add_subcommand("fit", kFitDescription);
  offer(
      add_list(*command, "--card", flags->cards, "GPU: a name, several with commas, all, or a file of doctor --probe"),
      plan::machine_names())
      ->type_name("NAME|FILE");
  add_list(*command, "--batch", flags->sweep.model.batches, "batch size, or auto: the largest that fits")
      ->type_name("N|auto")
      ->expected(1);
  add_list(*command, "--seq", flags->sweep.model.sequences, "sequence length, or auto: the longest that fits")
      ->type_name("N|auto")
      ->expected(1);
  offer(add_list(*command, "--strategy", flags->sweep.strategies, "strategy to predict; repeat, or separate by ';'"),
        strategy_words())
      ->type_name("SPEC");
  command->add_option("--write", flags->plan, "write the plan for --card, for sweep --plan; - is stdout")
      ->type_name("FILE|-");
  add_json_flag(*command, flags->json);
  ModelFlags& model = flags->sweep.model;
  model.add_to(*command, "./memtune-run");
  model.device = "cuda";  // of the card
  model.out_option = nullptr;
  for (const char* name : kOfTrials) command->remove_option(command->get_option(name));
  command->add_option("MODEL,--model", model.model, "folder with a config.json, or name on the Hugging Face hub")
      ->type_name(" ");
  const std::vector<std::string> trainers = profile_names("trainers");
  offer(command->add_option("--trainer", flags->sweep.trainer,
                            "writes the keys of that trainer; it is that of --config: " + join(trainers, ", ")),
        trainers)
      ->type_name("NAME");
  command->add_option("--config", flags->sweep.config, "your config of that trainer: model, batch and training")
      ->type_name("FILE");
  put_under(kModelOptions, *command, {"--batch", "--seq", "--trainer", "--config"});
  put_under(kTrials, *command, {"--strategy"});
  put_under(kAnswer, *command, {"--card", "--write", "--json"});
  command->callback([flags, command, &action] {
    action = [flags, command] {
      SweepFlags& sweep = flags->sweep;
      if (!sweep.config.empty())
        sweep.own = take_trainer_config(*command, sweep.trainer, sweep.config, sweep.model.text_only);
      return run_command(*flags);
    };
  });
}

}  // namespace memtune::cli
