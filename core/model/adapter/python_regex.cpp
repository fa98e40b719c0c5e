#include "core/model/adapter/python_regex.h"

#include <array>
#include <cctype>
#include <map>
#include <string_view>

#include "core/base/error.h"

namespace memtune::model {
namespace {

constexpr size_t kLongest = 4096;
constexpr int kDeepestGroups = 100;  // std::regex recurses into groups
constexpr std::string_view kSpecial = "^$\\.*+?()[]{}|";

std::regex::flag_type flags(bool ignores_case) {
  return ignores_case ? std::regex::ECMAScript | std::regex::icase : std::regex::ECMAScript;
}

class Translator {
 public:
  Translator(std::string_view text, std::string what) : text_(text), what_(std::move(what)) {}

  PythonRegex translate() {
    if (text_.size() > kLongest) refuse("is longer than 4096 characters, which is not supported");
    take_flags();
    while (at_ < text_.size()) take_one();
    if (depth_ > 0) refuse("is no regular expression: a group has no end");
    try {
      pattern_.regex();
    } catch (const std::regex_error& error) {
      refuse(std::string("is no regular expression: ") + error.what());
    }
    return std::move(pattern_);
  }

 private:
  [[noreturn]] void refuse(const std::string& why) const {
    throw UsageError(what_ + ": '" + std::string(text_.substr(0, kLongest)) + "' " + why);
  }
  [[noreturn]] void lack(const std::string& part, const std::string& name) const {
    refuse("has " + part + ", " + name + ", which is not supported");
  }

  bool next_is(std::string_view part) const { return text_.substr(at_).starts_with(part); }
  void put(std::string_view part, size_t taken) {
    pattern_.ecmascript += part;
    at_ += taken;
  }

  // Takes leading flags such as "(?i)". The other flags do not change how a module path matches.
  void take_flags() {
    if (!next_is("(?")) return;
    const size_t end = text_.substr(2).find_first_not_of("aimsu");
    if (end == 0 || end == std::string_view::npos || text_[2 + end] != ')') return;
    pattern_.ignores_case = text_.substr(2, end).find('i') != std::string_view::npos;
    at_ = end + 3;
  }

  void take_one() {
    const char letter = text_[at_];
    if (letter == '*' || letter == '+' || letter == '?') return take_repeat(std::string(1, letter), 1);
    if (letter == '{') return take_count();
    repeated_ = false;
    if (letter == '\\') return take_escape();
    if (letter == '[') return take_class();
    if (letter == '(') return take_group();
    if (letter == ')' && --depth_ < 0) refuse("is no regular expression: a group has no beginning");
    if (letter == ']' || letter == '}') return put(std::string{'\\', letter}, 1);
    put(std::string(1, letter), 1);
  }

  void take_repeat(const std::string& repeat, size_t taken) {
    if (repeated_) refuse("is no regular expression: a repeat is repeated");
    put(repeat, taken);
    if (next_is("?")) put("?", 1);
    if (next_is("+")) lack("a possessive repeat", repeat + "+");
    repeated_ = true;
  }

  // Braces without a count are literal.
  void take_count() {
    static const std::regex count(R"(\{(\d{0,4})(,(\d{0,4}))?\}.*)");
    const std::string rest(text_.substr(at_, 12));
    std::smatch match;
    const bool counts = std::regex_match(rest, match, count) && rest.size() > 1 && rest[1] != '}';
    if (!counts) {
      repeated_ = false;
      return put("\\{", 1);
    }
    const std::string least = match[1].length() > 0 ? match[1].str() : "0";
    take_repeat("{" + least + (match[2].matched ? "," + match[3].str() : "") + "}", rest.find('}') + 1);
  }

  void take_escape() {
    if (at_ + 1 == text_.size()) refuse("is no regular expression: it ends with a backslash");
    const char letter = text_[at_ + 1];
    if (letter == 'A') return put("^", 2);
    if (letter == 'Z') return put("$", 2);
    if (letter >= '1' && letter <= '9') return take_group_number();
    take_escaped(letter, "bBdDwWsSfnrtvxu");
  }

  // Python reads at most two digits; std::regex would read all that follow.
  void take_group_number() {
    const auto digit = [this](size_t i, char most) { return i < text_.size() && text_[i] >= '0' && text_[i] <= most; };
    const std::string number(text_.substr(at_ + 1, digit(at_ + 2, '9') ? 2 : 1));
    if (digit(at_ + 1, '7') && digit(at_ + 2, '7') && digit(at_ + 3, '7'))
      lack("an octal escape", std::string(text_.substr(at_, 4)));
    if (std::stoi(number) > groups_) refuse("is no regular expression: it has no group " + number);
    put("(?:\\" + number + ")", number.size() + 1);
  }

  void take_escaped(char letter, std::string_view same) {
    const std::string both = {'\\', letter};
    if (same.find(letter) != std::string_view::npos) return put(both, 2);
    if (std::isalnum(static_cast<unsigned char>(letter)) != 0) lack("the escape", both);
    put(kSpecial.find(letter) == std::string_view::npos && letter != '-' ? std::string(1, letter) : both, 2);
  }

  // In Python, "]" at the start of a class and "[" anywhere in a class are literal.
  void take_class() {
    put("[", 1);
    if (next_is("^")) put("^", 1);
    if (next_is("]")) put("\\]", 1);
    while (at_ < text_.size() && text_[at_] != ']') take_of_class();
    if (at_ == text_.size()) refuse("is no regular expression: a class has no end");
    put("]", 1);
  }

  void take_of_class() {
    const char letter = text_[at_];
    if (static_cast<unsigned char>(letter) >= 0x80) lack("a class with letters", "beyond ASCII");
    if (letter == '[') return put("\\[", 1);
    if (letter == '-' && (pattern_.ecmascript.back() == '[' || next_is("-]"))) return put("\\-", 1);
    if (letter != '\\') return put(std::string(1, letter), 1);
    if (at_ + 1 == text_.size()) refuse("is no regular expression: it ends with a backslash");
    take_escaped(text_[at_ + 1], "dDwWsSfnrtvxu");
  }

  void take_group() {
    if (++depth_ > kDeepestGroups) refuse("has more than 100 groups in each other, which is not supported");
    if (!next_is("(?")) {
      ++groups_;
      return put("(", 1);
    }
    for (const std::string_view same : {"(?:", "(?=", "(?!"})
      if (next_is(same)) return put(same, 3);
    if (next_is("(?P<")) return take_named();
    if (next_is("(?P=")) return take_back_reference();
    if (next_is("(?#")) return skip_comment();
    refuse_group();
  }

  // The text between the group's four opening characters and `end`.
  std::string name_before(char end) const {
    const size_t found = text_.find(end, at_);
    if (found == std::string_view::npos) refuse("is no regular expression: a group's name has no end");
    return std::string(text_.substr(at_ + 4, found - at_ - 4));
  }

  void take_named() {
    const std::string name = name_before('>');
    if (!names_.emplace(name, ++groups_).second) refuse("is no regular expression: two groups are called " + name);
    put("(", name.size() + 5);
  }

  void take_back_reference() {
    const std::string name = name_before(')');
    const auto found = names_.find(name);
    if (found == names_.end()) refuse("is no regular expression: no group is called '" + name + "'");
    --depth_;
    put("(?:\\" + std::to_string(found->second) + ")", name.size() + 5);
  }

  void skip_comment() {
    const size_t end = text_.find(')', at_);
    if (end == std::string_view::npos) refuse("is no regular expression: a comment has no end");
    --depth_;
    at_ = end + 1;
  }

  [[noreturn]] void refuse_group() const {
    struct Group {
      std::string_view begin;
      const char* name;
    };
    static constexpr std::array kGroups = {Group{"(?<", "looks behind"}, Group{"(?>", "is atomic"},
                                           Group{"(?(", "depends on another"}};
    for (const auto& [begin, name] : kGroups)
      if (next_is(begin)) refuse("has a group that " + std::string(name) + ", which is not supported");
    lack("a group with flags", std::string(text_.substr(at_, 4)));
  }

  std::string_view text_;
  std::string what_;
  PythonRegex pattern_;
  size_t at_ = 0;
  int depth_ = 0, groups_ = 0;
  std::map<std::string, int> names_;
  bool repeated_ = false;  // the last element was a quantifier
};

}  // namespace

std::regex PythonRegex::regex(const std::string& before, const std::string& behind) const {
  return std::regex(before + ecmascript + behind, flags(ignores_case));
}

PythonRegex parse_python_pattern(const std::string& text, const std::string& what) {
  return Translator(text, what).translate();
}

}  // namespace memtune::model
