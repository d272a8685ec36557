// SPDX-License-Identifier: Apache-2.0
// Configurations as mistakes and malice make them: one thing in a good one is changed.
#pragma once

#include <cstdlib>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/random.h"

namespace tessera::test {

struct MutatedJson {
  std::string text;
  std::string path;       // what was changed, with dots; "" if no value was replaced
  nlohmann::json before;  // at `path`
  nlohmann::json after;
};

/// `otherwise`, or as many as the environment's TESSERA_MUTATIONS says.
inline std::uint64_t mutations(std::uint64_t otherwise) {
  const char* const text = std::getenv("TESSERA_MUTATIONS");
  return text == nullptr ? generated(otherwise) : std::strtoull(text, nullptr, 10);
}

/// A message is one sentence: a line of text that says where, and nothing of how it was found.
inline bool is_one_sentence(const std::string& message, const std::string& source) {
  if (!message.starts_with(source) || message.size() > 3000) return false;
  for (const char c : message) {
    if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) return false;
  }
  for (const char* internal : {"json.exception", "TESSERA_", "std::", ".cpp", "nlohmann"}) {
    if (message.find(internal) != std::string::npos) return false;
  }
  return true;
}

class JsonMutator {
 public:
  explicit JsonMutator(std::uint64_t seed) : random_(seed) {}

  MutatedJson mutate(const nlohmann::json& good) {
    std::vector<nlohmann::json::json_pointer> places;
    collect(good, nlohmann::json::json_pointer(), places);
    const auto at = places[static_cast<std::size_t>(random_.below(std::ssize(places)))];
    nlohmann::json changed = good;
    MutatedJson out;
    if (random_.chance(15)) return broken_text(good.dump());
    if (random_.chance(15) && good[at].is_object()) {
      changed[at][name()] = value();
      out.text = text_of(changed);
      return out;
    }
    out.before = good[at];
    out.after = value();
    changed[at] = out.after;
    out.text = text_of(changed);
    out.path = at.to_string().substr(1);
    for (char& c : out.path) c = c == '/' ? '.' : c;
    return out;
  }

 private:
  static void collect(const nlohmann::json& json, const nlohmann::json::json_pointer& at,
                      std::vector<nlohmann::json::json_pointer>& out) {
    if (!at.empty()) out.push_back(at);
    if (json.is_object()) {
      for (const auto& [key, below] : json.items()) collect(below, at / key, out);
    } else if (json.is_array()) {
      for (std::size_t k = 0; k < json.size(); ++k) collect(json[k], at / k, out);
    }
  }

  std::string text_of(const nlohmann::json& json) {
    return json.dump(-1, ' ', false, nlohmann::json::error_handler_t::ignore);
  }

  std::string name() {
    static const std::vector<std::string> names = {
        "",      " ",     "a\nb",    "\x1b[31m", "..", "**", "é\u202e", std::string(5000, 'k'),
        "stage", "units", "enabled", "__proto__"};
    return names[static_cast<std::size_t>(random_.below(std::ssize(names)))];
  }

  nlohmann::json value() {
    static const std::vector<nlohmann::json> values = {
        nullptr,
        true,
        false,
        0,
        -1,
        1,
        3,
        0.5,
        -0.5,
        1e308,
        -1e308,
        1e-320,
        4294967296,
        INT64_MAX,
        INT64_MIN,
        UINT64_MAX,
        "",
        "auto",
        "1",
        "true",
        "NaN",
        "a\nb\r\x1b[2J\x7f",
        "é\u202e\u0000x",
        std::string(5000, 'x'),
        nlohmann::json::array(),
        nlohmann::json::object(),
        {nullptr},
        {1, 2, 3},
        {"a", "a"},
        {{"a", 1}},
        nlohmann::json::array({nlohmann::json::array({nlohmann::json::array()})}),
    };
    if (random_.chance(4)) return nested(60);
    if (random_.chance(5)) return nlohmann::json(std::vector<int>(3000, 1));
    return values[static_cast<std::size_t>(random_.below(std::ssize(values)))];
  }

  nlohmann::json nested(int depth) {
    nlohmann::json out = 1;
    for (int k = 0; k < depth; ++k) {
      out = k % 2 == 0 ? nlohmann::json{{"a", out}} : nlohmann::json::array({out});
    }
    return out;
  }

  // No JSON, or nothing that a library writes.
  MutatedJson broken_text(std::string text) {
    const auto somewhere = [&] {
      return static_cast<std::size_t>(random_.below(std::ssize(text)));
    };
    switch (random_.below(8)) {
      case 0: text.resize(somewhere()); break;
      case 1: text.insert(somewhere(), "NaN"); break;
      case 2: text[somewhere()] = static_cast<char>(random_.below(256)); break;
      case 3: text.insert(somewhere(), std::string(1, '\0')); break;
      case 4: text.insert(1, R"("a":1,"a":2,)"); break;
      case 5: text.insert(1, "\"deep\":" + std::string(100'000, '[') + ","); break;
      case 6: text = "\xef\xbb\xbf" + text; break;
      default: text.insert(somewhere(), "\xff\xfe\n\x1b[31m");
    }
    return {.text = std::move(text), .path = {}, .before = {}, .after = {}};
  }

  Random random_;
};

}  // namespace tessera::test
