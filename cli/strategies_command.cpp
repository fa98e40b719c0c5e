#include <algorithm>
#include <nlohmann/json.hpp>

#include "cli/app.h"
#include "cli/model_flags.h"
#include "cli/offer.h"
#include "core/base/layout.h"
#include "core/plan/strategy/strategy.h"

namespace memtune::cli {
namespace {

constexpr char kStrategiesDescription[] = R"(List the strategies, their parameters and what each does.

Examples:
  memtune strategies
  memtune strategies checkpoint:op
  memtune strategies --json -
  memtune sweep --strategy none --strategy 'offload:stream,stash=4GiB'
  memtune sweep --strategy none --strategy 'checkpoint:cheap+offload:stream,fraction=0.4')";

constexpr int kMaxTableWidth = 110;

constexpr char kJoining[] =
    "Parts are joined by +, as in checkpoint:cheap+offload:stream,fraction=0.4: a later part places what the earlier "
    "ones left on the device. Parts of one family are for different blocks.";

using Infos = std::vector<const plan::StrategyInfo*>;

// All strategies, or those of `name`: a family ("checkpoint"), a strategy ("checkpoint:every", "checkpoint:every=2"),
// or the parts of one ("checkpoint:cheap+offload:stream").
Infos wanted(const std::string& name) {
  Infos infos;
  for (const plan::StrategyInfo& info : plan::strategies()) {
    const std::string_view kind = info.name.substr(0, info.name.find('='));
    if (name.empty() || name == info.name || name == kind || info.name.starts_with(name + ":")) infos.push_back(&info);
  }
  if (!infos.empty()) return infos;
  const plan::Strategy strategy = plan::Strategy::parse(name);
  for (const plan::StrategyPart& part : strategy.parts()) {
    if (std::ranges::find(infos, &part.info()) == infos.end()) infos.push_back(&part.info());
  }
  return infos;
}

std::string as_json(const Infos& infos) {
  nlohmann::json list = nlohmann::json::array();
  for (const plan::StrategyInfo* info : infos) {
    const plan::StrategyInfo& strategy = *info;
    nlohmann::json parameters = nlohmann::json::array();
    for (const plan::StrategyParameterInfo& parameter : strategy.parameters) {
      parameters.push_back({{"name", parameter.name},
                            {"values", values_text(parameter)},
                            {"default", parameter.default_value},
                            {"help", parameter.help}});
    }
    list.push_back({{"name", strategy.name}, {"help", strategy.help}, {"parameters", parameters}});
    if (strategy.preset) list.back()["engine"] = strategy.preset->engine;
  }
  return nlohmann::json{{"strategies", list}}.dump(2) + "\n";
}

std::string_view family_of(const plan::StrategyInfo& info) {
  if (info.preset) return "Checkpointing and offloading of other engines";
  if (info.name.starts_with("checkpoint:")) return "Activation checkpointing: recompute in backward";
  if (info.name.starts_with("offload:"))
    return "Activation offloading: copy to CPU memory or disk, and back in backward";
  if (info.name.starts_with("states=")) return "Parameters and optimizer states in CPU memory";
  return "All activations on the device";
}

std::string as_text(const Infos& infos, int width) {
  std::string text;
  std::string_view before;
  for (const plan::StrategyInfo* strategy : infos) {
    const std::string_view family = family_of(*strategy);
    if (infos.size() > 1 && family != before) text += (text.empty() ? "" : "\n") + std::string(family) + "\n\n";
    before = family;
    text += std::string(strategy->name) + "\n" + hanging("    ", 4, std::string(strategy->help), width);
    for (const plan::StrategyParameterInfo& parameter : strategy->parameters) {
      const std::string values = std::string(parameter.name) + "=" + std::string(values_text(parameter));
      text += hanging(
          "      ", 10,
          values + " (default " + std::string(parameter.default_value) + "): " + std::string(parameter.help), width);
    }
  }
  return text + "\n" + hanging("", 0, kJoining, width);
}

}  // namespace

void add_strategies(CLI::App& app, Action& action) {
  struct Flags {
    std::string name, json;
    ConsoleFlags console;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("strategies", kStrategiesDescription);
  offer(command->add_option("NAME", flags->name, "strategy to show (default: all)"), strategy_words());
  add_json_flag(*command, flags->json);
  add_console_flags(*command, flags->console);
  command->callback([flags, &action] {
    action = [flags] {
      const Infos infos = wanted(flags->name);
      if (!flags->json.empty()) {
        write_output(flags->json, as_json(infos));
        return kDone;
      }
      write_output("-", as_text(infos, std::min(table_style(flags->console).width, kMaxTableWidth)));
      say(flags->console, "next: memtune sweep --strategy " + (flags->name.empty() ? "NAME" : flags->name));
      return kDone;
    };
  });
}

}  // namespace memtune::cli
