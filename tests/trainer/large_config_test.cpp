// The time to check a config and to write keys into it grows linearly with its size.
#include <doctest/doctest.h>

#include <algorithm>
#include <ctime>
#include <functional>

#include "core/answer/trainer/config_check.h"
#include "core/answer/trainer/trainer_batch_and_save_keys.h"
#include "core/base/error.h"
#include "tests/report/sample.h"
#include "tests/support/samples.h"

namespace memtune::large_config_test {

using namespace memtune;

namespace {

struct Form {
  const char* what;
  std::string trainer, name;
  std::function<std::string(int)> text;  // text with that many keys or numbers
  int small;
  std::map<std::string, std::string> releases = {};
};

std::string repeated(int times, const std::function<std::string(int)>& part) {
  std::string text;
  for (int i = 0; i < times; ++i) text += part(i);
  return text;
}

std::string number_list(int numbers) {
  return "[0" + repeated(numbers, [](int i) { return ", " + std::to_string(i); }) + "]";
}

std::string key(int i) { return "key_" + std::to_string(i); }

// CPU time of this thread.
double seconds(const std::function<void()>& work) {
  timespec begin{}, end{};
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &begin);
  work();
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &end);
  return static_cast<double>(end.tv_sec - begin.tv_sec) + static_cast<double>(end.tv_nsec - begin.tv_nsec) / 1e9;
}

// Linear time takes 4 times as long, quadratic time 16 times. On a busy machine the smallest of three counts.
void check_growth(const Form& form, const std::function<void(const std::string&)>& work) {
  constexpr double kFloor = 0.02;
  const int keys = tests::samples(form.small);
  const std::string small = form.text(keys), large = form.text(4 * keys);
  double of_small = 1e9, of_large = 1e9;
  for (int run = 0; run == 0 || (run < 3 && of_large >= 8 * std::max(of_small, kFloor)); ++run) {
    of_small = std::min(of_small, seconds([&] { work(small); }));
    of_large = std::min(of_large, seconds([&] { work(large); }));
  }
  CAPTURE(form.what);
  CAPTURE(of_small);
  CAPTURE(of_large);
  CHECK(of_large < 8 * std::max(of_small, kFloor));
}

const std::vector<Form>& forms() {
  static const std::map<std::string, std::string> kToml = {{"", "0.2.2"}};
  const auto yaml_keys = [](int n) { return repeated(n, [](int i) { return key(i) + ": 1\n"; }); };
  const auto nested_keys = [](int n) { return "a:\n" + repeated(n, [](int i) { return "  " + key(i) + ": 1\n"; }); };
  const auto yaml_list = [](int n) { return "a: " + number_list(n) + "\n"; };
  const auto yaml_items = [](int n) {
    return "a:\n" + repeated(n, [](int i) { return "- " + std::to_string(i) + "\n"; });
  };
  const auto flow_keys = [](int n) {
    return "a: {b: 1" + repeated(n, [](int i) { return ", " + key(i) + ": 1"; }) + "}\n";
  };
  const auto quotes = [](int n) { return "a: '" + std::string(static_cast<size_t>(2 * n), '\'') + "'\n"; };
  const auto comments = [](int n) { return repeated(n, [](int i) { return "# memtune 1\n" + key(i) + ": 1\n"; }); };
  const auto typos = [](int n) {
    return repeated(n, [](int i) {
      return "gradient_checkpointin" + std::string(1, char('a' + i % 26)) + "\xC3\x84" + std::to_string(i) + ": 1\n";
    });
  };
  const auto unknown_members = [](int n) {
    return "selective_checkpointing:\n" + repeated(n, [](int i) { return "  save" + std::to_string(i) + ": 1\n"; });
  };
  const auto tables = [](int n) { return repeated(n, [](int i) { return "[t" + std::to_string(i) + "]\nx = 1\n"; }); };
  const auto list_tables = [](int n) {
    return repeated(n, [](int i) { return "[[t]]\nx = " + std::to_string(i) + "\n"; });
  };
  const auto toml_keys = [](int n) { return repeated(n, [](int i) { return key(i) + " = 1\n"; }); };
  const auto toml_list = [](int n) { return "a = " + number_list(n) + "\n"; };
  const auto json_list = [](int n) { return "{\"a\": " + number_list(n) + "}"; };
  const auto json_keys = [](int n) {
    return "{\"a\": 1" + repeated(n, [](int i) { return ", \"" + key(i) + "\": 1"; }) + "}";
  };
  static const std::vector<Form> all = {{"keys of YAML", "axolotl", "x.yaml", yaml_keys, 4000},
                                        {"nested keys", "axolotl", "x.yaml", nested_keys, 4000},
                                        {"a list in brackets", "axolotl", "x.yaml", yaml_list, 20000},
                                        {"a list of lines", "axolotl", "x.yaml", yaml_items, 10000},
                                        {"keys in braces", "axolotl", "x.yaml", flow_keys, 4000},
                                        {"quotes within quotes", "axolotl", "x.yaml", quotes, 100000},
                                        {"comments of earlier exports", "axolotl", "x.yaml", comments, 4000},
                                        {"keys that are nearly known", "axolotl", "x.yaml", typos, 2000},
                                        {"members that nothing comes of", "axolotl", "x.yaml", unknown_members, 2000},
                                        {"tables of TOML", "torchtitan", "x.toml", tables, 4000, kToml},
                                        {"a list of tables", "torchtitan", "x.toml", list_tables, 4000, kToml},
                                        {"keys of TOML", "torchtitan", "x.toml", toml_keys, 4000, kToml},
                                        {"a list of TOML", "torchtitan", "x.toml", toml_list, 20000, kToml},
                                        {"a list of JSON", "deepspeed", "x.json", json_list, 20000},
                                        {"keys of JSON", "deepspeed", "x.json", json_keys, 4000}};
  return all;
}

}  // namespace

TEST_CASE("the time to check a config grows linearly with its size") {
  for (const Form& form : forms())
    check_growth(form,
                 [&](const std::string& text) { trainer::check_config(form.trainer, text, form.name, form.releases); });
}

TEST_CASE("the time to write keys into a config grows linearly with its size") {
  const result::TrialResultRow row = report::worked("checkpoint:full", 300, 1, report::kGiB);
  const report::Report report;
  for (const Form& form : forms())
    check_growth(form, [&](const std::string& text) {
      trainer::export_config(form.trainer, row, report, {form.releases, text, form.name});
    });
}

TEST_CASE("a config with very many problems lists the first hundred and says that there are more") {
  std::string text = "selective_checkpointing:\n";
  for (int i = 0; i < 150; ++i) text += "  save" + std::to_string(i) + ": 1\n";
  const trainer::ConfigProblemsAndEquivalentStrategy check = trainer::check_config("axolotl", text, "x.yaml", {});
  CHECK(check.problems.size() == 100);
  CHECK(std::ranges::count(check.notes, "only the first 100 problems are listed") == 1);
}

TEST_CASE("a config larger than any trainer's is refused by its size") {
  const std::string text(static_cast<size_t>(17) << 20, '\n');
  CHECK_THROWS_WITH_AS(trainer::check_config("axolotl", text, "x.yaml", {}),
                       "x.yaml is larger than 16 MiB: that is no config of a trainer", UsageError);
}

}  // namespace memtune::large_config_test
