// Scalars follow YAML 1.1, and written values read back as the same.
#include "core/answer/trainer/yaml_scalar.h"

#include <doctest/doctest.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "core/answer/trainer/yaml_text.h"

namespace memtune::yaml_scalar_test {

using nlohmann::json;
using namespace memtune::trainer;

TEST_CASE("scalars are read as a trainer's parser reads them") {
  for (const char* text : {"true", "True", "TRUE", "yes", "On"}) CHECK(plain_scalar(text) == true);
  for (const char* text : {"false", "no", "Off"}) CHECK(plain_scalar(text) == false);
  for (const char* text : {"", "null", "~"}) CHECK(plain_scalar(text).is_null());
  CHECK(plain_scalar("4") == 4);
  CHECK(plain_scalar("+4") == 4);
  CHECK(plain_scalar("-2.5e-5") == -2.5e-5);
  CHECK(plain_scalar("tRue") == "tRue");
  CHECK(plain_scalar("a b:c") == "a b:c");
}

TEST_CASE("numbers are those of YAML 1.1") {
  const std::vector<std::pair<const char*, json>> numbers = {{"010", 8},
                                                             {"0x4", 4},
                                                             {"0b101", 5},
                                                             {"1_6", 16},
                                                             {"-0x_F", -15},
                                                             {"1:30", 90},
                                                             {"-1:00:01", -3601},
                                                             {"1_0.5", 10.5},
                                                             {"1.", 1.0},
                                                             {".5", 0.5},
                                                             {"1e-5", 1e-5},
                                                             {"+1.5e+3", 1500.0},
                                                             {"0", 0},
                                                             {"-0", 0},
                                                             {"0_7", 7},
                                                             {"9223372036854775807", 9223372036854775807},
                                                             {"92233720368547758070", 92233720368547758070.0}};
  for (const auto& number : numbers) CHECK_MESSAGE(plain_scalar(number.first) == number.second, number.first);
  for (const char* text : {"08", "0o17", "1:60", "1:300", "0b2", "0x", "_1", "1e", "e5", ".", "-", "1.5.2",
                           "2026-11-26", "1-2", ".inf", "nan", "._5"})
    CHECK_MESSAGE(plain_scalar(text) == text, text);
}

TEST_CASE("text is quoted if it would be read as another type") {
  for (const char* text : {"4", "true", "a b", "", "-x", "a: b", "null", "2026-11-26", "1_000", "0x1F", "0b1", ".inf",
                           ".nan", "1_0.5", "..."})
    CHECK(read_value(write_value(text, false)) == text);
  CHECK(write_value("org/name-1.5_b", false) == "org/name-1.5_b");
  for (const char* text : {"2026-11-26", "1_000", "0x1F", ".inf"})  // YAML 1.1 reads these as a date and as numbers
    CHECK(write_value(text, false) == '"' + std::string(text) + '"');
  CHECK(write_value("aten::mm", false) == "\"aten::mm\"");
  CHECK(write_value(json{{"a", {1, "b"}}}, false) == "{a: [1, b]}");
  CHECK(write_value(json{{"a", {1, "b"}}}, true) == R"({"a":[1,"b"]})");
}

}  // namespace memtune::yaml_scalar_test
