#include "cli/offer.h"

#include "core/base/text.h"

namespace memtune::cli {
namespace {

const std::string kMark = "offer ";

}  // namespace

CLI::Option* offer(CLI::Option* option, const std::vector<std::string>& words) {
  return option->check(CLI::Validator("").name(kMark + join(words, " ")));
}

std::vector<std::string> offered(CLI::Option& option) try {
  const std::string& name = option.get_validator(0)->get_name();
  return name.starts_with(kMark) ? split(name.substr(kMark.size()), ' ') : std::vector<std::string>{};
} catch (const CLI::OptionNotFound&) {  // has no checks
  return {};
}

}  // namespace memtune::cli
