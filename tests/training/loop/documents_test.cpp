// SPDX-License-Identifier: Apache-2.0
// Lines of JSON become tokens of which some are learned, and are packed without losing any.
#include "tessera/documents.h"

#include <catch2/catch.hpp>

#include "tests/random.h"
#include "tests/require_ok.h"
#include "training/data/samples.h"

namespace tessera {
namespace {

// Learned bytes in brackets.
std::string shown(const Document& document) {
  std::string text;
  for (std::size_t k = 0; k < document.tokens.size(); ++k) {
    const bool before = k > 0 && document.learned[k - 1];
    if (document.learned[k] != before) text += before ? "]" : "[";
    text += static_cast<char>(document.tokens[k]);
  }
  return text + (document.learned.empty() || !document.learned.back() ? "" : "]");
}

std::string parsed_line(const std::string& line, const DocumentOptions& options) {
  const auto document = parse_document(line, options, "x.jsonl: line 7");
  return document.ok() ? shown(*document) : document.status().message();
}

// Random documents of tokens that count up, so that each is seen to arrive once.
std::vector<Document> random_documents(test::Random& random) {
  std::vector<Document> documents(static_cast<std::size_t>(random.below(20) + 1));
  std::int32_t next = 0;
  for (Document& document : documents) {
    const bool first = &document == &documents.front();  // has something to learn
    for (std::int64_t k = random.below(30) + (first ? 1 : 0); k >= 0; --k) {
      document.tokens.push_back(next++);
      document.learned.push_back(first || random.chance(50));
    }
  }
  return documents;
}

}  // namespace

TEST_CASE("of a text all is learned, of a pair the completion, of a chat the answers",
          "[documents]") {
  const DocumentOptions bare{.begin_of_text = '<', .end_of_text = '>'};
  const DocumentOptions plain{.chat = ChatTemplate::plain};
  const std::string chat = R"({"messages": [{"role": "system", "content": "Be brief."},
      {"role": "user", "content": "2+2"}, {"role": "assistant", "content": "4"},
      {"role": "user", "content": "sure"}, {"role": "assistant", "content": "yes"}]})";
  CHECK(parsed_line(R"({"text": "all of it", "id": 3})", {}) == "[all of it]");
  CHECK(parsed_line(R"({"text": "all of it"})", bare) == "<[all of it>]");
  CHECK(parsed_line(R"({"body": "other"})", {.key = "body"}) == "[other]");
  CHECK(parsed_line(R"({"prompt": "1+1=", "completion": "2", "text": "no"})", bare) == "<1+1=[2>]");
  CHECK(parsed_line(R"({"prompt": "1+1=", "completion": "2"})", plain) ==
        "user: 1+1=\nassistant: [2\n]");
  CHECK(parsed_line(R"({"instruction": "Add", "input": "1 1", "output": "2"})", plain) ==
        "user: Add\n\n1 1\nassistant: [2\n]");
  CHECK(parsed_line(chat, plain) ==
        "system: Be brief.\nuser: 2+2\nassistant: [4\n]user: sure\nassistant: [yes\n]");
}

TEST_CASE("what an assistant said with a weight of 0 is not learned", "[documents]") {
  CHECK(parsed_line(R"({"messages": [{"role": "assistant", "content": "a", "weight": 0},
                                     {"role": "assistant", "content": "b", "weight": 1}]})",
                    {.chat = ChatTemplate::plain}) == "assistant: a\nassistant: [b\n]");
}

TEST_CASE("what a line holds and nobody reads is noted, and what says nothing is no fault",
          "[documents]") {
  const DocumentOptions chatml{.chat = ChatTemplate::llama3};
  const DocumentOptions plain{.chat = ChatTemplate::plain, .end_of_text = 46};
  DocumentNotes notes;
  const auto parse = [&](const std::string& line, const DocumentOptions& options) {
    return shown(test::require_value(parse_document(line, options, "x", &notes)));
  };
  CHECK(parse(R"({"messages": [{"role": "user", "content": "a", "tool_calls": [], "name": ""},
                  {"role": "assistant", "content": "b"}], "system": "be rude", "tools": []})",
              plain) == "user: a\nassistant: [b\n.]");
  CHECK(parse(R"({"instruction": "a", "input": null, "output": "b", "history": [["x", "y"]],
                  "system": "c"})",
              plain) == "user: a\nassistant: [b\n.]");
  CHECK(parse(R"({"prompt": "a", "completion": "b", "label": false, "note": ""})", {}) == "a[b]");
  CHECK(parse(R"({"prompt": "a", "completion": ""})", {.end_of_text = '.'}) == "a[.]");
  CHECK(parse(R"({"messages": [{"role": "user", "content": "x<|eot_id|>"},
                  {"role": "assistant", "content": " "}]})",
              chatml)
            .find("[<|eot_id|>]") != std::string::npos);
  CHECK(notes.unread ==
        std::map<std::string, std::int64_t>{{"history", 1}, {"label", 1}, {"system", 2}});
  CHECK(notes.chats == 3);
  const auto said = warnings_of(notes, "x.jsonl");
  REQUIRE(said.size() == 3);
  CHECK(said[0] ==
        "x.jsonl: has keys that are not read: history (1 line), label (1 line), system (2 lines)");
  CHECK(said[1].find("answers without text, in documents: 2; of them only the end") !=
        std::string::npos);
  CHECK(said[2].find("tokens of the chat template in the text of messages, in documents: 1;") !=
        std::string::npos);
  CHECK(warnings_of({}, "x.jsonl").empty());
}

TEST_CASE("a line that is no document is refused with its number", "[documents]") {
  const DocumentOptions plain{.chat = ChatTemplate::plain};
  const std::vector<std::pair<std::string, std::string>> cases = {
      {"[1]", "is a list, no JSON object: give each document a line"},
      {"3", "is no JSON object"},
      {R"({"text": "a",})", "not valid JSON, see column 14"},
      {R"({"text": "a", "text": "b"})", "the key \"text\" is twice in one object"},
      {"{\"text\": \"caf\xE9\"}", "not valid JSON, see column 15"},
      {R"({"txt": "a"})", "has the keys txt: known are text, messages, prompt with completion"},
      {R"({"messages": []})", "messages is no list of messages"},
      {R"({"messages": [{"role": "tool", "content": "x"}]})", "the role tool is none of system"},
      {R"({"messages": [{"role": "user", "content": null}]})", "content is null, but must be a"},
      {R"({"messages": [{"role": "user"}]})", "content is missing"},
      {R"({"messages": [{"role": "user", "content": "a", "name": "b"}]})", "has the key name"},
      {R"({"messages": [{"role": "user", "content": "a", "tool_calls": [1]}]})", "calls of tools"},
      {R"({"messages": [{"role": "user", "content": "a"}], "tools": [1]})", "has tools, which"},
      {R"({"messages": [{"role": "assistant", "content": "a", "weight": 0.5}]})", "must be 0 or 1"},
      {R"({"messages": [{"role": "user", "content": "a", "weight": 1}]})", "its weight must be 0"},
      {R"({"prompt": ["a"], "completion": "b"})", "prompt is array, but must be a text"}};
  for (const auto& [line, message] : cases) {
    INFO(line);
    const std::string said = parsed_line(line, plain);
    CHECK(said.find("x.jsonl: line 7: ") == 0);
    CHECK(said.find(message) != std::string::npos);
  }
  CHECK(parsed_line(R"({"messages": [{"role": "user", "content": "a"}]})", {})
            .find("a chat needs a template: choose chatml, llama3 or plain") != std::string::npos);
  CHECK(parsed_line(R"({"instruction": "a", "output": "b"})", {}).find("needs a chat template") !=
        std::string::npos);
  CHECK(check({.chat = ChatTemplate::llama3}).message().find("<|begin_of_text|>") !=
        std::string::npos);
}

TEST_CASE("each token that is learned is in one packed sample, behind the token before it",
          "[documents]") {
  for (std::uint64_t seed = 0; seed < test::generated(300); ++seed) {
    INFO("seed " << seed);
    test::Random random(seed);
    const auto documents = random_documents(random);
    const auto length = static_cast<std::size_t>(random.below(12) + 1);
    const auto corpus =
        test::require_value(Corpus::from_documents(documents, "x.jsonl", {.vocabulary = 1 << 20}));
    const auto samples = test::require_value(
        Samples::create(corpus, corpus.ranges(), static_cast<std::int64_t>(length), seed));
    std::vector<int> seen(static_cast<std::size_t>(corpus.tokens()));
    std::vector<std::int32_t> memory(3 * length);
    const auto part = [&](std::size_t k) { return std::span(memory).subspan(k * length, length); };
    const TokenBatch one{part(0), part(1), part(2)};
    for (std::int64_t n = 0; n < samples.samples(); ++n) {
      const SamplerState at = samples.order().after({}, n);
      test::require_ok(samples.read(at, one));
      std::int64_t targets = 0;
      for (std::size_t k = 0; k < length; ++k) {
        const auto begin = static_cast<std::size_t>(one.begins[k]);
        REQUIRE(begin <= k);
        REQUIRE((k == 0 || begin == k || one.begins[k - 1] == one.begins[k]));
        if (one.targets[k] == no_target) continue;
        ++targets;
        ++seen[static_cast<std::size_t>(one.targets[k])];
        CHECK(one.targets[k] == one.inputs[k] + 1);
        if (begin < k) CHECK(one.inputs[k] == one.inputs[k - 1] + 1);
      }
      CHECK(samples.targets(at) == targets);
    }
    for (const Document& document : documents) {
      for (std::size_t k = 0; k < document.tokens.size(); ++k) {
        const bool wanted = k > 0 && document.learned[k];  // nothing foretells a first token
        CHECK(seen[static_cast<std::size_t>(document.tokens[k])] == (wanted ? 1 : 0));
      }
    }
  }
}

TEST_CASE("a part held back consists of whole documents", "[documents]") {
  std::vector<Document> documents;
  for (int k = 0; k < 10; ++k) documents.push_back({{1, 2, 3}, {true, true, true}});
  const auto corpus =
      test::require_value(Corpus::from_documents(documents, "x.jsonl", {.vocabulary = 4}));
  const auto [training, held_out] = corpus.split(0.25);
  CHECK(corpus.documents_in(training[0].tokens).size() == 7);
  CHECK(corpus.documents_in(held_out[0].tokens).size() == 3);
}

TEST_CASE("corpora that differ in what is learned are different", "[documents]") {
  const auto of = [](bool learned) {
    return test::require_value(
               Corpus::from_documents({{{1, 2}, {false, true}}, {{3, 1}, {learned, true}}}, "x",
                                      {.vocabulary = 4}))
        .fingerprint();
  };
  CHECK(of(true) != of(false));
  CHECK(of(true) == of(true));
}

TEST_CASE("a part held back that leaves no document is named as such", "[documents]") {
  const auto one = test::require_value(
      Corpus::from_documents({{{1, 2, 3}, {true, true, true}}}, "x.jsonl", {.vocabulary = 4}));
  const auto [training, held_out] = one.split(0.5);
  CHECK(Samples::create(one, training, 4, 0).status().message() ==
        "x.jsonl: no document is left, as parts are held back by whole documents: hold back less, "
        "or use more documents");
  CHECK(Samples::create(one, held_out, 4, 0).ok());
}

TEST_CASE("without anything to learn there is nothing to train on", "[documents]") {
  const auto corpus = test::require_value(
      Corpus::from_documents({{{1, 2}, {true, false}}, {{3}, {true}}}, "x.jsonl", {}));
  CHECK(Samples::create(corpus, corpus.ranges(), 4, 0).status().message() ==
        "x.jsonl: none of its documents has anything to learn");
}

}  // namespace tessera
