#include "core/model/pt2/pickle.h"

#include <map>

namespace memtune::model {
namespace {

using Kind = PickleValue::Kind;

constexpr size_t kMaxValues = 1 << 20;

// Thrown for an unsupported pickle; parse_pickle() catches it.
struct NotUnderstood {};

class Parser {
 public:
  explicit Parser(std::string_view text) : text_(text) {}

  PickleTree parse() {
    while (!done_) step(static_cast<unsigned char>(take(1)[0]));
    pickle_.root = pop();
    return std::move(pickle_);
  }

 private:
  std::string_view take(size_t bytes) {
    if (bytes > text_.size() - at_) throw NotUnderstood();
    at_ += bytes;
    return text_.substr(at_ - bytes, bytes);
  }

  // Little-endian.
  uint64_t number(size_t bytes) {
    uint64_t value = 0;
    int shift = 0;
    for (const char c : take(bytes)) {
      value |= uint64_t{static_cast<unsigned char>(c)} << shift;
      shift += 8;
    }
    return value;
  }

  int64_t signed_number(size_t bytes) {
    if (bytes > 8) throw NotUnderstood();
    const uint64_t value = number(bytes);
    const int unused = 64 - 8 * static_cast<int>(bytes);
    return bytes == 0 ? 0 : static_cast<int64_t>(value << unused) >> unused;
  }

  std::string line() {
    const size_t end = text_.find('\n', at_);
    if (end == std::string_view::npos) throw NotUnderstood();
    std::string found(text_.substr(at_, end - at_));
    at_ = end + 1;
    return found;
  }

  void push(PickleValue value) {
    if (pickle_.values.size() == kMaxValues) throw NotUnderstood();
    pickle_.values.push_back(std::move(value));
    stack_.push_back(pickle_.values.size() - 1);
  }
  void push(Kind kind, std::vector<size_t> parts) { push({kind, 0, "", std::move(parts)}); }
  void push(int64_t integer) { push({Kind::integer, integer, "", {}}); }
  void push(Kind kind, std::string_view text) { push({kind, 0, std::string(text), {}}); }

  size_t pop() {
    if (stack_.empty() || (!marks_.empty() && marks_.back() == stack_.size())) throw NotUnderstood();
    const size_t value = stack_.back();
    stack_.pop_back();
    return value;
  }

  std::vector<size_t> pop(size_t count) {
    std::vector<size_t> values(count);
    for (size_t i = count; i-- > 0;) values[i] = pop();
    return values;
  }

  std::vector<size_t> pop_to_mark() {
    if (marks_.empty()) throw NotUnderstood();
    std::vector<size_t> values = pop(stack_.size() - marks_.back());
    marks_.pop_back();
    return values;
  }

  // Appends to the list or dict on top of the stack.
  void append(const std::vector<size_t>& values) {
    if (stack_.empty()) throw NotUnderstood();
    std::vector<size_t>& parts = pickle_.values[stack_.back()].parts;
    if (parts.size() + values.size() > kMaxValues) throw NotUnderstood();
    parts.insert(parts.end(), values.begin(), values.end());
  }

  void remember(uint64_t name) {
    if (stack_.empty()) throw NotUnderstood();
    memo_[name] = stack_.back();
  }

  void recall(uint64_t name) {
    const auto found = memo_.find(name);
    if (found == memo_.end()) throw NotUnderstood();
    stack_.push_back(found->second);
  }

  void step(unsigned char opcode) {
    switch (opcode) {
      case 0x80: take(1); return;  // protocol version
      case '(': marks_.push_back(stack_.size()); return;
      case 'N': return push(PickleValue());
      case 0x88: return push(1);
      case 0x89: return push(0);
      case 'J': return push(signed_number(4));
      case 'K': return push(static_cast<int64_t>(number(1)));
      case 'M': return push(static_cast<int64_t>(number(2)));
      case 0x8A: return push(signed_number(number(1)));
      case 'G': take(8); return push(PickleValue());
      case 'X': return push(Kind::text, take(number(4)));
      case 'c': {
        const std::string module = line();
        return push(Kind::global, module + " " + line());
      }
      case ']':
      case ')': return push(Kind::sequence, std::vector<size_t>());
      case 't': return push(Kind::sequence, pop_to_mark());
      case 0x85:
      case 0x86:
      case 0x87: return push(Kind::sequence, pop(opcode - 0x84));
      case '}': return push(Kind::dict, std::vector<size_t>());
      case 'a': return append(pop(1));
      case 's': return append(pop(2));
      case 'e':
      case 'u': return append(pop_to_mark());
      case 'Q': return push(Kind::persistent, pop(1));
      case 'R': return push(Kind::call, pop(2));
      case 'q': return remember(number(1));
      case 'r': return remember(number(4));
      case 'h': return recall(number(1));
      case 'j': return recall(number(4));
      case '.': done_ = true; return;
      default: throw NotUnderstood();
    }
  }

  std::string_view text_;
  size_t at_ = 0;
  bool done_ = false;
  PickleTree pickle_;
  std::vector<size_t> stack_, marks_;
  std::map<uint64_t, size_t> memo_;
};

}  // namespace

std::optional<PickleTree> parse_pickle(std::string_view text) try {
  return Parser(text).parse();
} catch (const NotUnderstood&) {
  return std::nullopt;
}

}  // namespace memtune::model
