#include <nlohmann/json.hpp>

#include "cli/app.h"
#include "core/config/strategy.h"

namespace memtune::cli {
namespace {

constexpr char kDescription[] = R"(List the strategies, their parameters and what each does.

Examples:
  memtune strategies
  memtune strategies --json
  memtune sweep --strategy none --strategy 'offload:stream,stash=4GiB'
  memtune sweep --strategy none --strategy 'checkpoint:cheap+offload:stream,fraction=0.4')";

constexpr char kJoining[] = R"(
Parts are joined by +, as in checkpoint:cheap+offload:stream,fraction=0.4: a later part places what the earlier ones
left on the device. Parts of one family are for different blocks.
)";

std::string as_json() {
  nlohmann::json list = nlohmann::json::array();
  for (const config::StrategyInfo& strategy : config::strategies()) {
    nlohmann::json parameters = nlohmann::json::array();
    for (const config::ParameterInfo& parameter : strategy.parameters) {
      parameters.push_back({{"name", parameter.name},
                            {"values", values_text(parameter)},
                            {"default", parameter.default_value},
                            {"help", parameter.help}});
    }
    list.push_back({{"name", strategy.name}, {"help", strategy.help}, {"parameters", parameters}});
  }
  return nlohmann::json{{"strategies", list}}.dump(2) + "\n";
}

std::string as_text() {
  std::string text;
  for (const config::StrategyInfo& strategy : config::strategies()) {
    text.append(strategy.name).append("\n    ").append(strategy.help).append("\n");
    for (const config::ParameterInfo& parameter : strategy.parameters) {
      text.append("      ").append(parameter.name).append("=").append(values_text(parameter));
      text.append("  (default ").append(parameter.default_value).append(")  ").append(parameter.help).append("\n");
    }
  }
  return text + kJoining;
}

}  // namespace

void add_strategies(CLI::App& app, Action& action) {
  struct Flags {
    bool json = false;
    ConsoleFlags console;
  };
  auto flags = std::make_shared<Flags>();
  CLI::App* command = app.add_subcommand("strategies", kDescription);
  command->add_flag("--json", flags->json, "as JSON");
  add_console_flags(*command, flags->console);
  command->callback([flags, &action] {
    action = [flags] {
      write_output("-", flags->json ? as_json() : as_text());
      if (!flags->json) say(flags->console, "next: memtune sweep --strategy NAME");
      return kDone;
    };
  });
}

}  // namespace memtune::cli
