#include "core/model/adapter/python_regex.h"

#define PCRE2_CODE_UNIT_WIDTH 8
#include <pcre2.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <cstdint>
#include <string_view>
#include <utility>

#include "core/base/error.h"

namespace memtune::model {
namespace {

constexpr size_t kLongest = 4096;
constexpr uint32_t kDeepestGroups = 100;
constexpr uint32_t kMaxSteps = 1'000'000;  // of one match; well under a second
constexpr uint32_t kMaxHeapKiB = 64 << 10;

[[noreturn]] void refuse(const std::string& what, const std::string& expression, const std::string& why) {
  throw UsageError(what + ": '" + expression.substr(0, kLongest) + "' " + why);
}

// Writes in PCRE2's syntax what Python writes otherwise, and refuses what only PCRE2 has.
class Translator {
 public:
  Translator(const std::string& text, const std::string& what) : text_(text), what_(what) {}

  std::string translate() {
    take_flags();
    while (at_ < text_.size()) take_one();
    return std::move(out_);
  }

 private:
  [[noreturn]] void invalid(const std::string& why) const {
    refuse(what_, text_, "is no regular expression of Python's, or not supported: " + why);
  }

  bool next_is(std::string_view part) const { return std::string_view(text_).substr(at_).starts_with(part); }
  void put(std::string_view part, size_t taken) {
    out_ += part;
    at_ += taken;
  }
  // The letters after `from` that are among `letters`.
  std::string_view run(size_t from, std::string_view letters) const {
    const std::string_view rest = std::string_view(text_).substr(std::min(from, text_.size()));
    return rest.substr(0, std::min(rest.find_first_not_of(letters), rest.size()));
  }

  // Flags for the whole expression, "(?i)": Python allows them at the begin only. "a" and "u" change no module path.
  void take_flags() {
    while (next_is("(?")) {
      const std::string_view flags = run(at_ + 2, "aimsu");
      if (flags.empty() || text_.substr(at_ + 2 + flags.size(), 1) != ")") return;
      put("(?" + without_ascii(flags) + ")", flags.size() + 3);
    }
  }
  static std::string without_ascii(std::string_view flags) {
    std::string kept(flags);
    std::erase_if(kept, [](char flag) { return flag == 'a' || flag == 'u'; });
    return kept;
  }

  void take_one() {
    const char letter = text_[at_];
    if (letter == '\\') return take_escape(false);
    if (letter == '[') return take_class();
    if (letter == '(') return take_group();
    if (next_is("{,")) {  // PCRE2 10.42 has no repeat without a least count
      const std::string_view most = run(at_ + 2, "0123456789");
      if (text_.substr(at_ + 2 + most.size(), 1) == "}") return put("{0," + std::string(most) + "}", most.size() + 3);
    }
    put(std::string(1, letter), 1);
  }

  void take_escape(bool in_class) {
    if (at_ + 1 == text_.size()) invalid("it ends with a backslash");
    const char letter = text_[at_ + 1];
    const std::string both = {'\\', letter};
    if (letter == 'Z') return put("\\z", 2);
    if (letter == 'v') return put("\\x0b", 2);
    if (letter == 'x') return take_code(2);
    if (letter == 'u') return take_code(4);
    if (letter == 'U') return take_code(8);
    if (std::isdigit(static_cast<unsigned char>(letter))) return take_number(in_class);
    const std::string_view same = in_class ? "abdDfnrsStwW" : "AabBdDfnrsStwW";
    if (std::isalpha(static_cast<unsigned char>(letter)) && same.find(letter) == same.npos)
      invalid("it has the escape " + both);
    put(both, 2);
  }

  void take_code(size_t digits) {
    const std::string_view code = run(at_ + 2, "0123456789abcdefABCDEF").substr(0, digits);
    if (code.size() < digits) invalid("an escape has " + std::to_string(digits) + " hexadecimal digits");
    put("\\x{" + std::string(code) + "}", digits + 2);
  }

  // Python reads \0, \12 in a class and three octal digits as a letter, otherwise one or two digits as a group.
  void take_number(bool in_class) {
    const std::string_view octal = run(at_ + 1, "01234567").substr(0, 3);
    const bool letter = text_[at_ + 1] == '0' || octal.size() == 3 || in_class;
    if (letter && (octal.empty() || (octal.size() == 3 && octal > "377")))
      invalid("it has the escape " + text_.substr(at_, 1 + std::max<size_t>(octal.size(), 1)));
    const std::string_view digits = letter ? octal : run(at_ + 1, "0123456789").substr(0, 2);
    put(letter ? "\\o{" + std::string(digits) + "}" : "\\g{" + std::string(digits) + "}", digits.size() + 1);
  }

  // In Python "[" in a class is a letter, and PCRE2 reads "[:alpha:]".
  void take_class() {
    put("[", 1);
    if (next_is("^")) put("^", 1);
    if (next_is("]")) put("\\]", 1);
    while (at_ < text_.size() && text_[at_] != ']') {
      if (text_[at_] == '\\')
        take_escape(true);
      else
        put(text_[at_] == '[' ? "\\[" : text_.substr(at_, 1), 1);
    }
  }

  void take_group() {
    if (next_is("(*")) invalid("nothing to repeat");
    if (!next_is("(?")) return put("(", 1);
    for (const std::string_view same : {"(?:", "(?=", "(?!", "(?<=", "(?<!", "(?>", "(?P<", "(?P=", "(?#"})
      if (next_is(same)) return same == "(?#" ? skip_comment() : put(same, same.size());
    if (next_is("(?(")) {
      const std::string_view name = run(at_ + 3, "_0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ");
      if (!name.empty() && text_.substr(at_ + 3 + name.size(), 1) == ")" && name != "R" && name != "DEFINE")
        return put(text_.substr(at_, name.size() + 4), name.size() + 4);
    }
    const std::string_view flags = run(at_ + 2, "aimsu-");
    if (flags.empty() || text_.substr(at_ + 2 + flags.size(), 1) != ":")
      invalid("a group begins with " + text_.substr(at_, 4));
    put("(?" + without_ascii(flags) + ":", flags.size() + 3);
  }

  void skip_comment() {
    const size_t end = text_.find(')', at_);
    if (end == std::string::npos) invalid("a comment has no end");
    at_ = end + 1;
  }

  const std::string& text_;
  const std::string& what_;
  std::string out_;
  size_t at_ = 0;
};

}  // namespace

struct PythonRegex::Compiled {
  struct Free {
    void operator()(pcre2_code* code) const { pcre2_code_free(code); }
    void operator()(pcre2_match_data* match) const { pcre2_match_data_free(match); }
    void operator()(pcre2_match_context* limits) const { pcre2_match_context_free(limits); }
    void operator()(pcre2_compile_context* limits) const { pcre2_compile_context_free(limits); }
  };
  std::unique_ptr<pcre2_code, Free> code;
  std::unique_ptr<pcre2_match_data, Free> match;
  std::unique_ptr<pcre2_match_context, Free> limits;
};

PythonRegex::PythonRegex(const std::string& expression, const std::string& what, const std::string& before,
                         const std::string& behind)
    : compiled_(std::make_unique<Compiled>()), expression_(expression), what_(what) {
  if (expression.size() > kLongest) refuse(what, expression, "is longer than 4096 characters, which is not supported");
  const auto compile = [&](const std::string& text) {
    const std::unique_ptr<pcre2_compile_context, Compiled::Free> context(pcre2_compile_context_create(nullptr));
    pcre2_set_parens_nest_limit(context.get(), kDeepestGroups);
    pcre2_set_newline(context.get(), PCRE2_NEWLINE_LF);
    int error = 0;
    PCRE2_SIZE place = 0;
    compiled_->code.reset(
        pcre2_compile(reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(),
                      PCRE2_UTF | PCRE2_UCP | PCRE2_ANCHORED | PCRE2_ENDANCHORED | PCRE2_NEVER_BACKSLASH_C, &error,
                      &place, context.get()));
    if (compiled_->code) return;
    std::array<PCRE2_UCHAR, 256> message{};
    pcre2_get_error_message(error, message.data(), message.size());
    refuse(what, expression,
           "is no regular expression: " + std::string(reinterpret_cast<const char*>(message.data())) +
               " at character " + std::to_string(place));
  };
  const std::string translated = Translator(expression, what).translate();
  compile(translated);  // alone, so that it does not close a group of `before`
  if (!before.empty() || !behind.empty()) compile(before + translated + behind);
  compiled_->match.reset(pcre2_match_data_create_from_pattern(compiled_->code.get(), nullptr));
  compiled_->limits.reset(pcre2_match_context_create(nullptr));
  pcre2_set_match_limit(compiled_->limits.get(), kMaxSteps);
  pcre2_set_depth_limit(compiled_->limits.get(), kMaxSteps);
  pcre2_set_heap_limit(compiled_->limits.get(), kMaxHeapKiB);
}

PythonRegex::~PythonRegex() = default;

bool PythonRegex::matches(const std::string& text) const {
  const int found = pcre2_match(compiled_->code.get(), reinterpret_cast<PCRE2_SPTR>(text.data()), text.size(), 0, 0,
                                compiled_->match.get(), compiled_->limits.get());
  if (found == PCRE2_ERROR_MATCHLIMIT || found == PCRE2_ERROR_DEPTHLIMIT || found == PCRE2_ERROR_HEAPLIMIT)
    refuse(what_, expression_, "takes too long to match '" + text.substr(0, kLongest) + "'");
  return found >= 0;
}

std::optional<std::string> PythonRegex::last_group(const std::string& text) const {
  if (!matches(text)) return std::nullopt;
  const uint32_t group = pcre2_get_ovector_count(compiled_->match.get()) - 1;
  const PCRE2_SIZE* const ends = pcre2_get_ovector_pointer(compiled_->match.get());
  if (ends[2 * group] == PCRE2_UNSET) return std::string();
  return text.substr(ends[2 * group], ends[2 * group + 1] - ends[2 * group]);
}

}  // namespace memtune::model
