#include "search/query.h"

#include <cstring>

namespace tidesdb {

namespace {

constexpr char PREFIXES[] = "+-~<>";
constexpr float RAISED = 2, LOWERED = 0.5F;

struct Token {
  enum class Kind : uchar { WORD, PHRASE, PREFIX, STAR, AT, OPEN, CLOSE, END };
  Kind kind = Kind::END;
  size_t place = 0; /* of its first byte in the text */
  std::string text;
};

class Lexer {
 public:
  explicit Lexer(const QueryText &text)
      : text_(text), at_(text.text.data), end_(text.text.data + text.text.size) {}

  Token next() {
    while (at_ < end_ && separates(*at_) && size() == 1) at_++;
    Token token;
    token.place = place();
    if (at_ == end_) return token;
    const uchar first = *at_;
    if (size() == 1) {
      if (first == '"') return phrase(std::move(token));
      token.kind = first == '('       ? Token::Kind::OPEN
                   : first == ')'     ? Token::Kind::CLOSE
                   : first == '*'     ? Token::Kind::STAR
                   : first == '@'     ? Token::Kind::AT
                   : is_prefix(first) ? Token::Kind::PREFIX
                                      : Token::Kind::WORD;
    } else {
      token.kind = Token::Kind::WORD;
    }
    if (token.kind != Token::Kind::WORD) {
      token.text.assign(1, static_cast<char>(first));
      at_++;
      return token;
    }
    while (at_ < end_ && !ends_word()) take(&token);
    return token;
  }

 private:
  static bool separates(uchar byte) { return byte == ' ' || byte == '\n' || byte == '%' || byte == 0; }
  static bool is_prefix(uchar byte) { return byte != 0 && strchr(PREFIXES, byte) != nullptr; }
  static bool is_operator(uchar byte) {
    return byte == '"' || byte == '(' || byte == ')' || byte == '*' || byte == '@' || is_prefix(byte);
  }
  size_t place() const { return static_cast<size_t>(at_ - text_.text.data); }
  size_t size() const { return text_.size_of(text_.charset, at_, end_); }

  bool ends_word() const {
    if (size() != 1) return false;
    if (separates(*at_)) return true;
    if (!is_operator(*at_)) return false;
    const bool joins = text_.blend.find(static_cast<char>(*at_)) != std::string::npos && at_ + 1 < end_ &&
                       !separates(at_[1]) && !is_operator(at_[1]);
    return !joins;
  }

  void take(Token *token) {
    const size_t bytes = size();
    token->text.append(reinterpret_cast<const char *>(at_), bytes);
    at_ += bytes;
  }

  /* One without its end goes to the end of the query. */
  Token phrase(Token token) {
    token.kind = Token::Kind::PHRASE;
    for (at_++; at_ < end_; take(&token)) {
      if (size() != 1 || *at_ != '"') continue;
      at_++;
      break;
    }
    return token;
  }

  const QueryText &text_;
  const uchar *at_;
  const uchar *const end_;
};

class Reader {
 public:
  Reader(const QueryText &text, std::string *error) : lexer_(text), error_(error) { step(); }

  bool read(QueryNode *query) {
    if (!read_parts(0, query)) return false;
    return token_.kind == Token::Kind::END || fail();
  }

 private:
  void step() { token_ = lexer_.next(); }

  bool fail() {
    const std::string what = token_.kind == Token::Kind::END ? "end of the query" : "'" + token_.text + "'";
    *error_ = "syntax error, unexpected " + what + " at byte " + std::to_string(token_.place + 1);
    return false;
  }

  /* Up to the group's end, which stays. */
  bool read_parts(unsigned depth, QueryNode *group) {
    while (token_.kind != Token::Kind::END && token_.kind != Token::Kind::CLOSE) {
      QueryNode part;
      if (token_.kind == Token::Kind::PREFIX) {
        take_prefix(&part);
        step();
      }
      if (!read_part(depth, &part)) return false;
      if (++parts_ > MOST_PARTS) {
        *error_ = "more than " + std::to_string(MOST_PARTS) + " parts";
        return false;
      }
      group->parts.push_back(std::move(part));
    }
    return true;
  }

  void take_prefix(QueryNode *part) const {
    switch (token_.text[0]) {
      case '+':
        part->bearing = Bearing::REQUIRED;
        break;
      case '-':
        part->bearing = Bearing::EXCLUDED;
        break;
      case '~':
        part->bearing = Bearing::LOWERS;
        break;
      case '>':
        part->boost = RAISED;
        break;
      default:
        part->boost = LOWERED;
    }
  }

  bool read_part(unsigned depth, QueryNode *part) {
    switch (token_.kind) {
      case Token::Kind::OPEN:
        if (depth == MOST_NESTED) {
          *error_ = "parentheses nested deeper than " + std::to_string(MOST_NESTED) + " at byte " +
                    std::to_string(token_.place + 1);
          return false;
        }
        step();
        if (!read_parts(depth + 1, part)) return false;
        if (token_.kind != Token::Kind::CLOSE) return fail();
        step();
        return true;
      case Token::Kind::STAR: /* before a word it is nothing */
        step();
        if (token_.kind != Token::Kind::WORD) return fail();
        [[fallthrough]];
      case Token::Kind::WORD:
        part->kind = QueryNode::Kind::TEXT;
        part->text = token_.text;
        step();
        if (token_.kind != Token::Kind::STAR) return true;
        part->kind = QueryNode::Kind::PREFIX;
        step();
        return true;
      case Token::Kind::PHRASE:
        part->kind = QueryNode::Kind::PHRASE;
        part->text = token_.text;
        step();
        return token_.kind != Token::Kind::AT || read_distance(part);
      default:
        return fail();
    }
  }

  bool read_distance(QueryNode *part) {
    step();
    if (token_.kind != Token::Kind::WORD) return fail();
    for (const char digit : token_.text) {
      if (digit < '0' || digit > '9') return fail();
      part->distance = part->distance > UINT32_MAX ? part->distance : part->distance * 10 + (digit - '0');
    }
    step();
    return true;
  }

  Lexer lexer_;
  Token token_;
  size_t parts_ = 0;
  std::string *error_;
};

}  // namespace

bool read_boolean_query(const QueryText &text, QueryNode *query, std::string *error) {
  *query = QueryNode();
  return Reader(text, error).read(query);
}

}  // namespace tidesdb
