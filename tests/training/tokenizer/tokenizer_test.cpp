// SPDX-License-Identifier: Apache-2.0
// Tokens by small tokenizers whose answers are plain; scripts/tokenizer-check compares large ones
// with Hugging Face's.
#include "tessera/tokenizer.h"

#include <catch2/catch.hpp>

namespace tessera {
namespace {

using Ids = std::vector<std::int32_t>;

Tokenizer parsed(const std::string& json) {
  auto made = Tokenizer::parse(json, "test");
  INFO(made.status().message());
  REQUIRE(made.ok());
  return *made;
}

Ids encoded(const Tokenizer& tokenizer, const std::string& text,
            SpecialTokens special = SpecialTokens::added) {
  const auto ids = tokenizer.encode(text, special);
  INFO(ids.status().message());
  REQUIRE(ids.ok());
  return *ids;
}

std::string decoded(const Tokenizer& tokenizer, const Ids& ids) {
  const auto text = tokenizer.decode(ids);
  INFO(text.status().message());
  REQUIRE(text.ok());
  return *text;
}

std::string refused(const std::string& json) {
  const auto made = Tokenizer::parse(json, "test");
  REQUIRE_FALSE(made.ok());
  return made.status().message();
}

// Bytes of "to see", a space as U+0120, one merge after the other.
const std::string byte_level = R"({
  "added_tokens": [{"id": 9, "content": "<|end|>", "special": true, "lstrip": false}],
  "normalizer": {"type": "NFC"},
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "use_regex": true},
  "post_processor": {"type": "ByteLevel"},
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "vocab": {"t": 0, "o": 1, "s": 2, "e": 3, "\u0120": 4, "to": 5,
    "\u0120s": 6, "ee": 7, "\u0120see": 8, "\u00c3": 10, "\u00a9": 11},
    "merges": ["t o", ["\u0120", "s"], "e e", "\u0120s ee"]}})";

TEST_CASE("bytes are merged by rank within words, and come back", "[tokenizer]") {
  const Tokenizer t = parsed(byte_level);
  CHECK(encoded(t, "to see") == Ids{5, 8});
  CHECK(encoded(t, "toe  see") == Ids{5, 3, 4, 8});
  CHECK(encoded(t, "see<|end|>to") == Ids{2, 7, 9, 5});
  CHECK(encoded(t, "\xC3\xA9") == Ids{10, 11});
  CHECK(encoded(t, "e\xCC\x81") == Ids{10, 11});  // composed first
  CHECK(encoded(t, "").empty());
  CHECK(decoded(t, {5, 8, 9}) == "to see");
  CHECK(t.decode(Ids{5, 9}, SpecialTokens::added).value() == "to<|end|>");
  CHECK(decoded(t, {10}) == "\xEF\xBF\xBD");
  CHECK(t.size() == 12);
  CHECK(t.find("<|end|>") == 9);
  CHECK(t.find("none") == -1);
  CHECK(t.decode(Ids{12}).status().message() == "test: no token has the number 12");
  CHECK(t.encode("a\xFF").status().message() == "byte 1 of the text is no UTF-8");
}

TEST_CASE("two tokens with one number, or one with two, are refused", "[tokenizer][errors]") {
  const auto said = [](const std::string& added, const std::string& vocabulary) {
    return refused(R"({"added_tokens": [)" + added + R"(],
        "model": {"type": "BPE", "vocab": {)" +
                   vocabulary + R"(}, "merges": []}})");
  };
  const std::string a = R"("a": 0)";
  CHECK(said(R"({"id": 0, "content": "<|end|>"})", a) ==
        "test: token \"<|end|>\" has the number 0, which is that of \"a\"");
  CHECK(said("", a + R"(, "b": 1, "c": 0)") ==
        "test: token \"c\" has the number 0, which is that of \"a\"");
  CHECK(said(R"({"id": 1, "content": "a"})", a) ==
        "test: added token \"a\" has the number 1, but had 0 before");
  CHECK(
      refused(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "dropout": "0.1"}})") ==
      "test: dropout of merges is not supported: set it to null");
  CHECK(refused(R"({"model": {"type": "Unigram", "vocab": [["a", -1]], "unk_id": 0.5}})") ==
        "test: unk_id 0.5 is no token of the vocabulary");
}

TEST_CASE("a post-processor that leaves out the text or adds no token is refused",
          "[tokenizer][errors]") {
  const auto said = [](const std::string& processor) {
    return refused(R"({"post_processor": {"type": )" + processor +
                   R"(}, "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})");
  };
  const auto single = [&](const std::string& parts) {
    return said(R"("TemplateProcessing", "single": [)" + parts +
                R"(], "special_tokens": {"<s>": {"id": "<s>", "ids": [7], "tokens": ["<s>"]}})");
  };
  const std::string a = R"({"Sequence": {"id": "A", "type_id": 0}})";
  const std::string times = "test: post_processor TemplateProcessing has the text ";
  CHECK(single("") == times + "0 times in single: once is supported");
  CHECK(single(R"({"Sequence": {"id": "B", "type_id": 0}})").starts_with(times + "0 times"));
  CHECK(single(a + "," + a).starts_with(times + "2 times"));
  const std::string adds = "test: post_processor adds token 7, which the vocabulary has not";
  CHECK(single(a + R"(, {"SpecialToken": {"id": "<s>", "type_id": 0}})") == adds);
  CHECK(said(R"("BertProcessing", "cls": ["<s>", 7], "sep": ["<s>", 0])") == adds);
  CHECK(refused(R"({"model": {"type": "WordPiece", "vocab": {"[UNK]": 0},
      "max_input_chars_per_word": -1}})") ==
        "test: max_input_chars_per_word is -1, must be 0 or more");
}

TEST_CASE("pieces of a unigram model are the likeliest, unknown ones are bytes or one token",
          "[tokenizer]") {
  const std::string rest = R"(, "pre_tokenizer": {"type": "Metaspace", "replacement": "\u2581",
      "prepend_scheme": "always"}, "decoder": {"type": "Metaspace", "replacement": "\u2581",
      "prepend_scheme": "always"}, "post_processor": {"type": "TemplateProcessing",
      "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A"}}],
      "special_tokens": {"<s>": {"id": "<s>", "ids": [1], "tokens": ["<s>"]}}}})";
  const Tokenizer t = parsed(R"({"added_tokens": [{"id": 1, "content": "<s>", "special": true}],
      "model": {"type": "Unigram", "unk_id": 0, "vocab": [["<unk>", 0], ["<s>", 0],
      ["\u2581", -3], ["a", -2], ["b", -2], ["ab", -3.5], ["\u2581a", -2.5]]})" +
                             rest);
  CHECK(encoded(t, "ab") == Ids{1, 6, 4});
  CHECK(encoded(t, "aab", SpecialTokens::left_out) == Ids{6, 5});
  CHECK(encoded(t, "a xyz b") == Ids{1, 6, 2, 0, 2, 4});
  CHECK(decoded(t, {1, 6, 4, 2, 4}) == "ab b");
}

// Characters are tokens; behind `normalizers`, `cuts` and then Llama's Metaspace for first words.
Tokenizer of_first_words(const std::string& normalizers, const std::string& cuts) {
  return parsed(R"({"normalizer": {"type": "Sequence", "normalizers": [)" + normalizers +
                R"(]}, "pre_tokenizer": {"type": "Sequence", "pretokenizers": [)" + cuts +
                R"(, {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": "first"}]},
      "model": {"type": "BPE", "unk_token": "<unk>", "merges": [], "vocab": {"<unk>": 0,
      "\u2581": 1, "1": 2, "a": 3, "b": 4, "\u0301": 7, "\u0323": 8, "\u00e9": 9}}})");
}

TEST_CASE("all that became of the first character begins the first word, as in Python",
          "[tokenizer]") {
  const std::string digits = R"({"type": "Digits", "individual_digits": true})";
  const auto prepends = of_first_words(R"({"type": "Prepend", "prepend": "\u2581"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"})",
                                       digits);
  CHECK(encoded(prepends, "1a") == Ids{1, 1, 2, 3});
  CHECK(encoded(prepends, "a1") == Ids{1, 3, 2});
  CHECK(encoded(prepends, "11") == Ids{1, 1, 2, 2});
  CHECK(encoded(prepends, " 1") == Ids{1, 1, 2});
  const auto replaces = of_first_words(R"({"type": "Replace", "pattern": {"Regex": "[ab]+"},
      "content": "1"})",
                                       digits);
  CHECK(encoded(replaces, "a1") == Ids{1, 2, 2});
  CHECK(encoded(replaces, "ab1") == Ids{2, 2});
  const auto strips = of_first_words(R"({"type": "Strip"})", digits);
  CHECK(encoded(strips, " a") == Ids{3});
  CHECK(encoded(strips, "a ") == Ids{1, 3});
  const auto decomposes = of_first_words(R"({"type": "NFD"})", R"({"type": "Split",
      "pattern": {"Regex": "\\p{M}"}, "behavior": "Isolated"})");
  CHECK(encoded(decomposes, "\u00e9") == Ids{1, 0, 1, 7});
  CHECK(encoded(decomposes, "e\u0301") == Ids{1, 0, 7});
  CHECK(encoded(decomposes, "\u00e9\u0323") == Ids{1, 0, 8, 7});
  CHECK(encoded(decomposes, "\u0301\u0323") == Ids{1, 8, 7});
  const auto composes = of_first_words(R"({"type": "Prepend", "prepend": "\u2581"},
      {"type": "NFC"})",
                                       R"({"type": "Split",
      "pattern": {"Regex": "[\u00e91]"}, "behavior": "Isolated"})");
  CHECK(encoded(composes, "e\u0301a") == Ids{1, 1, 9, 3});
  CHECK(encoded(composes, "\u00e91") == Ids{1, 1, 9, 2});
}

TEST_CASE("a unigram model without a token for the unknown refuses what it would try it for",
          "[tokenizer][errors]") {
  const Tokenizer t = parsed(R"({"model": {"type": "Unigram", "byte_fallback": true, "vocab":
      [["a", -1], ["ab", -1.5], ["<0x64>", -9], ["b", -3], ["ac", -3]]}})");
  CHECK(encoded(t, "ab") == Ids{1});
  CHECK(encoded(t, "ac") == Ids{4});
  CHECK(t.encode("d").status().message() ==
        "\"d\" has no token, and the tokenizer none for the unknown: take it out of the text, or "
        "name an unk_id in the tokenizer.json");
}

TEST_CASE("a BPE model may fall back to bytes", "[tokenizer]") {
  const Tokenizer t = parsed(R"({"normalizer": {"type": "Sequence", "normalizers": [
      {"type": "Prepend", "prepend": "\u2581"},
      {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"}]},
      "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
      {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1}]},
      "model": {"type": "BPE", "byte_fallback": true, "fuse_unk": true, "unk_token": "<unk>",
      "vocab": {"<unk>": 0, "\u2581": 1, "a": 2, "\u2581a": 3, "<0xC3>": 4, "<0xA9>": 5},
      "merges": ["\u2581 a"]}})");
  CHECK(encoded(t, "a a\xC3\xA9") == Ids{3, 3, 4, 5});
  CHECK(encoded(t, "xya") == Ids{1, 0, 2});
  // Bytes overtake what is unknown and do not separate it, as in Python.
  CHECK(encoded(t,
                "x\xC3\xA9y\xC3\xA9"
                "a") == Ids{1, 4, 5, 4, 5, 0, 2});
  CHECK(decoded(t, {3, 3, 4, 5}) == "a a\xC3\xA9");
  CHECK(decoded(t, {3, 4}) == "a\xEF\xBF\xBD");
}

TEST_CASE("WordPiece takes the longest beginning of what BERT's steps leave", "[tokenizer]") {
  const Tokenizer t = parsed(R"({"normalizer": {"type": "BertNormalizer", "lowercase": true},
      "pre_tokenizer": {"type": "BertPreTokenizer"}, "decoder": {"type": "WordPiece"},
      "post_processor": {"type": "BertProcessing", "sep": ["[SEP]", 2], "cls": ["[CLS]", 1]},
      "model": {"type": "WordPiece", "unk_token": "[UNK]", "max_input_chars_per_word": 8,
      "vocab": {"[UNK]": 0, "[CLS]": 1, "[SEP]": 2, "see": 3, "##ing": 4, "!": 5, "e": 6,
      "\u4e2d": 7}}})");
  CHECK(encoded(t, "SEEing!") == Ids{1, 3, 4, 5, 2});
  CHECK(encoded(t, "\xC3\x89 seex", SpecialTokens::left_out) == Ids{6, 0});
  CHECK(encoded(t, "\xE4\xB8\xAD\xE4\xB8\xAD", SpecialTokens::left_out) == Ids{7, 7});
  CHECK(encoded(t, "seeingsee", SpecialTokens::left_out) == Ids{0});
  CHECK(decoded(t, {3, 4, 5}) == "seeing!");
}

TEST_CASE("characters have the properties of the Unicode that Python's tokenizers know",
          "[tokenizer]") {
  // U+0A76, punctuation since Unicode 11, U+166D until 8; U+0AFE, a mark since 11.
  const Tokenizer bert = parsed(R"({"normalizer": {"type": "BertNormalizer", "lowercase": true},
      "pre_tokenizer": {"type": "BertPreTokenizer"}, "model": {"type": "WordPiece",
      "unk_token": "[UNK]", "max_input_chars_per_word": 8, "vocab": {"[UNK]": 0, "a": 1,
      "\u166d": 2, "a\u0afe": 3, "e": 4}}})");
  CHECK(encoded(bert, "a\xE0\xA9\xB6 a\xE1\x99\xADz") == Ids{0, 1, 2, 0});
  CHECK(encoded(bert, "a\xE0\xAB\xBE \xC3\xA9") == Ids{3, 4});
  // StripAccents takes spacing marks, too (U+0903), of Unicode 9 (U+08D4), not of 11 (U+07FD).
  const Tokenizer strips = parsed(R"({"normalizer": {"type": "StripAccents"}, "pre_tokenizer":
      {"type": "WhitespaceSplit"}, "model": {"type": "WordPiece", "unk_token": "[UNK]",
      "max_input_chars_per_word": 8, "vocab": {"[UNK]": 0, "a": 1, "a\u07fd": 2}}})");
  CHECK(encoded(strips, "a\xE0\xA4\x83 a\xE0\xA3\x94 a\xDF\xBD") == Ids{1, 1, 2});
  // U+32FF is two characters since Unicode 12.1; U+1F16A since 6.1.
  const Tokenizer nfkc = parsed(R"({"normalizer": {"type": "NFKC"}, "pre_tokenizer":
      {"type": "WhitespaceSplit"}, "model": {"type": "WordPiece", "unk_token": "[UNK]",
      "max_input_chars_per_word": 8, "vocab": {"[UNK]": 0, "\u32ff": 1, "MC": 2}}})");
  CHECK(encoded(nfkc, "\xE3\x8B\xBF \xF0\x9F\x85\xAA") == Ids{1, 2});
}

TEST_CASE("patterns cut as their behaviour says", "[tokenizer]") {
  const auto of = [](const std::string& behaviour, bool invert) {
    return parsed(
        R"({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "\\s"}, "behavior": ")" +
        behaviour + R"(", "invert": )" + (invert ? "true" : "false") +
        R"(}, "model": {"type": "BPE", "ignore_merges": true, "unk_token": "?",
      "vocab": {"?": 0, "a": 1, "b": 2, " ": 3, "a ": 4, " b": 5, "  ": 6}, "merges": []}})");
  };
  CHECK(encoded(of("Removed", false), "a  b") == Ids{1, 2});
  CHECK(encoded(of("Removed", true), "a b") == Ids{3});
  CHECK(encoded(of("Isolated", false), "a  b") == Ids{1, 3, 3, 2});
  CHECK(encoded(of("Contiguous", false), "a  b") == Ids{1, 6, 2});
  CHECK(encoded(of("MergedWithPrevious", false), "a  b") == Ids{4, 3, 2});
  CHECK(encoded(of("MergedWithNext", false), "a  b") == Ids{1, 3, 5});
}

TEST_CASE("steps of a tokenizer that are not known are refused with their names", "[tokenizer]") {
  const std::string model = R"("model": {"type": "BPE", "vocab": {"a": 0}, "merges": []})";
  CHECK(refused(R"({"normalizer": {"type": "Precompiled"}, )" + model + "}")
            .find("test: normalizer \"Precompiled\" is not known: known are") == 0);
  CHECK(refused(R"({"pre_tokenizer": {"type": "UnicodeScripts"}, )" + model + "}")
            .find("pre_tokenizer \"UnicodeScripts\" is not known") != std::string::npos);
  CHECK(refused(R"({"decoder": {"type": "CTC"}, )" + model + "}").find("decoder \"CTC\"") !=
        std::string::npos);
  CHECK(refused(R"({"model": {"type": "WordLevel", "vocab": {}}})").find("model \"WordLevel\"") !=
        std::string::npos);
  CHECK(refused(R"({"model": {"type": "BPE", "vocab": {"a": 0}, "merges": ["a b"]}})")
            .find("merge 0 of \"a\" and \"b\"") != std::string::npos);
  CHECK(refused(R"({"pre_tokenizer": {"type": "Split", "pattern": {"Regex": "("}}, )" + model + "}")
            .find("the pattern ( is not understood") != std::string::npos);
  CHECK(refused(R"({"version": "2.0", )" + model + "}") ==
        "test: version \"2.0\" is not known: known is 1.0");
  CHECK(refused("{}") == "test: has no model: it is no tokenizer.json");
  CHECK(refused(R"({"model": {"type": "BPE"}})").find("is not as a tokenizer.json should be") !=
        std::string::npos);
  CHECK(refused("{").find("not valid JSON") != std::string::npos);
}

TEST_CASE("keys of a tokenizer that nobody reads are named, wherever they stand", "[tokenizer]") {
  const Tokenizer t = parsed(R"({"mine": 1, "truncation": null, "added_tokens":
      [{"id": 1, "content": "x", "rank": 2}], "normalizer": {"type": "Sequence", "normalizers":
      [{"type": "NFC", "form": 1}, {"type": "Strip", "strip_left": false}]},
      "decoder": {"type": "Fuse", "loss": null},
      "model": {"type": "BPE", "vocab": {"a": 0}, "merges": [], "unk_tokn": "a"}})");
  REQUIRE(t.warnings().size() == 1);
  CHECK(t.warnings()[0] ==
        "test: has keys that are not read: added_tokens.rank, mine, model.unk_tokn, "
        "normalizer.form");
  CHECK(parsed(byte_level).warnings().empty());
  CHECK(parsed(R"({"padding": {}, "model": {"type": "BPE", "vocab": {"a": 0}, "merges": []}})")
            .warnings()[0] ==
        "test: padding is not followed: a text becomes as many tokens as it "
        "has");
  const Tokenizer twice = parsed(R"({"model": {"type": "Unigram", "vocab":
      [["a", -1], ["b", -2], ["a", -3], ["b", -1]]}})");
  CHECK(twice.encode("a", SpecialTokens::left_out).value() == std::vector<std::int32_t>{2});
  CHECK(twice.warnings() == std::vector<std::string>{"test: the vocabulary has \"a\" twice, and "
                                                     "its number is the later"});
}

}  // namespace
}  // namespace tessera
