#include "core/answer/run/command_variants.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>

#include "core/base/error.h"
#include "core/sweep/commands/trainer_variants.h"

namespace memtune::command_variants_test {

using namespace memtune;
using namespace memtune::sweep;

namespace {

std::vector<CommandVariant> variants(std::vector<std::string> command, const std::vector<std::string>& tries) {
  std::vector<CommandPlaceholderSweepAxis> axes;
  for (const std::string& text : tries) axes.push_back(parse_axis(text));
  return expand({{"", std::move(command), "", ""}}, axes);
}

using Words = std::vector<std::string>;

}  // namespace

TEST_CASE("every combination of values is a variant in the order of the values") {
  const auto all = variants({"train", "--gc={gc}", "{batch}x{batch}"}, {"gc=True;False", "batch=4; 8"});
  REQUIRE(all.size() == 4);
  CHECK(all[0].name == "gc=True, batch=4");
  CHECK(all[0].command == Words{"train", "--gc=True", "4x4"});
  CHECK(all[1].name == "gc=True, batch=8");
  CHECK(all[2].name == "gc=False, batch=4");
  CHECK(all[3].command == Words{"train", "--gc=False", "8x8"});
}

TEST_CASE("a variant knows its values that may change the training") {
  CommandPlaceholderSweepAxis length = parse_axis("seq=1;2");
  length.changes_training = true;
  const auto all = expand({{"", {"train", "{gc}", "{seq}"}, "", ""}}, {parse_axis("gc=0;1"), length});
  CHECK(all[0].training == "seq=1");
  CHECK(all[1].training == "seq=2");
  CHECK(all[2].training == "seq=1");
  CommandSweepSettingsAndVariants sweep, read;
  sweep.variants = all;
  from_json(sweep, read);
  CHECK(read.variants[1].training == "seq=2");
}

TEST_CASE("--allow takes the names of --try") {
  const auto allow = [](const std::string& name) {
    CommandSweepSettingsAndVariants sweep;
    add_variants({{"train", "{seq}"}, {"seq=1;2"}, "", "", {name}}, sweep);
    return sweep.variants[1].training;
  };
  CHECK(allow("seq") == "seq=2");
  CHECK_THROWS_WITH_AS(allow("sequ"), doctest::Contains("did you mean 'seq'?"), UsageError);
}

TEST_CASE("the parts of a combination have the same values as the combination") {
  const auto all =
      expand({{"full", {"train", "{lr}"}, "", "", "own"}, {"full+x", {"train", "{lr}"}, "", "", "own", {"full", "x"}}},
             {parse_axis("lr=1;2")});
  CHECK(all[1].own == "own, lr=2");
  CHECK(all[3].parts == Words{"full, lr=2", "x, lr=2"});
}

TEST_CASE("without an axis the command is one variant") {
  const auto all = variants({"train", "--flag"}, {});
  REQUIRE(all.size() == 1);
  CHECK(all[0].name == "command");
  CHECK(all[0].command == Words{"train", "--flag"});
}

TEST_CASE("an argument that expands to nothing is removed so that a flag can be tried") {
  const auto all = variants({"train", "{gc}", ""}, {"gc=;--gradient-checkpointing"});
  CHECK(all[0].command == Words{"train", ""});
  CHECK(all[1].command == Words{"train", "--gradient-checkpointing", ""});
}

TEST_CASE("braces of a shell or of JSON or in a value are not placeholders") {
  const auto all = variants({"sh", "-c", "echo ${HOME} {\"a\": 1} {x}"}, {"x={y}"});
  CHECK(all[0].command.back() == "echo ${HOME} {\"a\": 1} {y}");
}

TEST_CASE("every placeholder needs an axis and every axis needs a placeholder") {
  CHECK_THROWS_WITH_AS(variants({"train", "{a}"}, {}), "the command has {a}, and no --try 'a=...' says what that is",
                       UsageError);
  CHECK_THROWS_WITH_AS(variants({"train"}, {"a=1"}), "--try a: the command has no {a}", UsageError);
  CHECK_THROWS_WITH_AS(variants({"train", "{a}"}, {"a=1", "a=2"}), "--try a is given twice", UsageError);
  CHECK_THROWS_WITH_AS(variants({"train", "{a}"}, {"a=1;1"}), "--try 'a=1;1' has '1' twice", UsageError);
  for (const char* bad : {"a", "=1", "1a=2", "a b=3"}) CHECK_THROWS_AS(parse_axis(bad), UsageError);
}

TEST_CASE("more than 1000 combinations are refused before they are expanded") {
  std::string many = "=0";
  for (int i = 1; i < 200; ++i) many += ";" + std::to_string(i);
  CHECK_THROWS_WITH_AS(variants({"{a}{b}{c}{d}"}, {"a" + many, "b" + many, "c" + many, "d" + many}),
                       "--try: these are more than 1000 combinations", UsageError);
}

TEST_CASE("a variant with a config file gets its path and axes apply to each variant") {
  const std::vector<CommandVariant> own = {{"own", {"train", "{config}", "{x}"}, "mine.yaml", "a: 1"},
                                           {"offload", {"train", "{config}", "{x}"}, "mine.yaml", "a: 2"}};
  const auto all = expand(own, {parse_axis("x=1;2")});
  REQUIRE(all.size() == 4);
  CHECK(all[1].name == "own, x=2");
  CHECK(all[2].name == "offload, x=1");
  CHECK(all[2].file_text == "a: 2");
  CHECK(with_paths(all[2], "run/trials/1") == Words{"train", "run/trials/1/config/mine.yaml", "1"});
  const auto shell = expand({{"own", {"sh", "${config} {config}"}, "a.yaml", ""}}, {});
  CHECK(with_paths(shell[0], "t") == Words{"sh", "${config} t/config/a.yaml"});
  CHECK_THROWS_AS(variants({"train", "{config}"}, {}), UsageError);
}

TEST_CASE("the word {folder} needs no axis and stands for another folder at each start") {
  const auto all = variants({"train", "--out={folder}/x", "{folder}", "{x}"}, {"x={folder}"});
  CHECK(with_paths(all[0], "t", "t/own") == Words{"train", "--out=t/own/x", "t/own", "{folder}"});
  CHECK(with_paths(all[0], "t") == Words{"train", "--out={folder}/x", "{folder}", "{folder}"});
  CHECK(with_paths(variants({"{folder}"}, {"folder=a"})[0], "t", "t/own") == Words{"a"});
}

TEST_CASE("a value {config} is not replaced by the config path even after a run is read back") {
  const auto all = expand({{"own", {"train", "{x}", "--config={config}"}, "a.yaml", ""}}, {parse_axis("x={config}")});
  CHECK(with_paths(all[0], "t") == Words{"train", "{config}", "--config=t/config/a.yaml"});
  CommandSweepSettingsAndVariants sweep;
  sweep.variants = all;
  const CommandSweepSettingsAndVariants read =
      nlohmann::json::parse(nlohmann::json(sweep).dump()).get<CommandSweepSettingsAndVariants>();
  CHECK(with_paths(read.variants[0], "t") == with_paths(all[0], "t"));
}

TEST_CASE("variants with equal names and values of several lines are refused") {
  CHECK_THROWS_WITH_AS(variants({"{a}", "{b}"}, {"a=1;1, b=2", "b=2, b=3;3"}),
                       "two variants have the name 'a=1, b=2, b=3': their values have commas and names in them",
                       UsageError);
  CHECK_THROWS_WITH_AS(parse_axis("a=1\n2"), "--try a: a value is one line; what has several can stand in a file",
                       UsageError);
}

TEST_CASE("command variants are read back from sweep.json") {
  CommandSweepSettingsAndVariants sweep;
  sweep.command = {"train", "{x}"};
  sweep.trainer = "trl";
  sweep.variants = {{"x=1", {"train", "1"}, "f.yaml", "not kept"}};
  sweep.skipped = {{"other", "does nothing"}};
  sweep.warmup = 3;
  sweep.memory_cap_bytes = 7;
  const CommandSweepSettingsAndVariants read = nlohmann::json(sweep).get<CommandSweepSettingsAndVariants>();
  CHECK(nlohmann::json(read) == nlohmann::json(sweep));
  CHECK(read.variants[0].command == Words{"train", "1"});
  CHECK(read.variants[0].file_text.empty());
}

}  // namespace memtune::command_variants_test
