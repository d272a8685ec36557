// SPDX-License-Identifier: Apache-2.0
// BERT and its kin.
#include "engine/architectures/bert_builder.h"
#include "engine/architectures/encoder_parts.h"
#include "engine/architectures/family.h"

namespace tessera {
namespace {

Result<Model> bert(JsonReader& config, const std::string& head, const std::string& name) {
  static constexpr BertNames names{.prefix = "Bert", .base = "bert", .style = BertStyle::bert};
  return build_bert(names, config, head, name);
}

Result<Model> roberta(JsonReader& config, const std::string& head, const std::string& name) {
  static constexpr BertNames names{.prefix = "Roberta",
                                   .base = "roberta",
                                   .embeddings = "word type norm position",
                                   .vocabulary = 50265};
  return build_bert(names, config, head, name);
}

EncoderFamily like_bert(const std::string& model_type, const std::string& heads,
                        const BertNames& names) {
  return {model_type, names.prefix, heads,
          [names](JsonReader& config, const std::string& head, const std::string& name) {
            return build_bert(names, config, head, name);
          }};
}

// RoBERTa's classes under other names.
EncoderFamily like_roberta(const std::string& model_type, const std::string& heads,
                           const char* prefix, const char* base) {
  return like_bert(model_type, heads,
                   {.prefix = prefix, .base = base, .embeddings = "word type norm position"});
}

Result<Model> distilbert(JsonReader& config, const std::string& head, const std::string& name) {
  static constexpr BertNames names{.prefix = "DistilBert",
                                   .base = "distilbert",
                                   .style = BertStyle::distil,
                                   .hidden = "dim|hidden_size",
                                   .inner = "hidden_dim",
                                   .layers = "n_layers|num_hidden_layers",
                                   .heads = "n_heads|num_attention_heads",
                                   .dropout = "dropout",
                                   .block_list = "transformer.layer",
                                   .embeddings = "word position norm",
                                   .attention = "q_lin:q k_lin:k v_lin:v out_lin:o",
                                   .layers_default = 6};
  return build_bert(names, config, head, name);
}

Result<Model> electra(JsonReader& config, const std::string& head, const std::string& name) {
  static constexpr BertNames names{.prefix = "Electra",
                                   .base = "electra",
                                   .style = BertStyle::electra,
                                   .hidden_default = 256,
                                   .inner_default = 1024,
                                   .heads_default = 4,
                                   .width = "embedding_size",
                                   .narrow = 128};
  return build_bert(names, config, head, name);
}

Result<Model> mpnet(JsonReader& config, const std::string& head, const std::string& name) {
  static constexpr BertNames names{.prefix = "MPNet",
                                   .base = "mpnet",
                                   .embeddings = "word position norm",
                                   .attention = "attn.q:q attn.k:k attn.v:v attn.o:o LayerNorm:n",
                                   .vocabulary = 30527,
                                   .relative = true,
                                   .fused = false};
  return build_bert(names, config, head, name);
}

constexpr const char* norm_in_front =
    "self.query:q self.key:k self.value:v output.dense:o LayerNorm:n";

BertNames ernie() {
  return {.prefix = "Ernie",
          .base = "ernie",
          .style = BertStyle::bert,
          .embeddings = "word position type task norm"};
}

BertNames layout() {
  BertNames names{.prefix = "LayoutLM", .base = "layoutlm", .style = BertStyle::bert};
  names.embeddings = "word position x y h w type norm";
  names.always_pools = true;
  return names;
}

BertNames megatron() {
  BertNames names{.prefix = "MegatronBert", .base = "bert", .style = BertStyle::bert};
  names.embeddings = "word position type";
  names.attention = "ln:n self.query:q self.key:k self.value:v output.dense:o";
  names.vocabulary = 29056;
  names.hidden_default = 1024;
  names.inner_default = 4096;
  names.layers_default = 24;
  names.heads_default = 16;
  names.before_mlp = "ln";
  names.last_norm = "encoder.ln";
  names.fused = false;
  return names;
}

BertNames normed_roberta() {
  BertNames names{.prefix = "RobertaPreLayerNorm", .base = "roberta_prelayernorm"};
  names.embeddings = "word type norm position";
  names.attention = norm_in_front;
  names.vocabulary = 50265;
  names.before_mlp = "intermediate.LayerNorm";
  names.last_norm = "LayerNorm";
  return names;
}

BertNames large_roberta() {
  BertNames names{.prefix = "XLMRobertaXL", .base = "roberta"};
  names.embeddings = "word type position";
  names.attention = "self.query:q self.key:k self.value:v output.dense:o self_attn_layer_norm:n";
  names.vocabulary = 250880;
  names.positions = 514;
  names.types = 1;
  names.hidden_default = 2560;
  names.inner_default = 10240;
  names.layers_default = 36;
  names.heads_default = 32;
  names.before_mlp = "LayerNorm";
  names.late_norm = true;
  names.last_norm = "encoder.LayerNorm";
  return names;
}

BertNames big_bird() {
  BertNames names{.prefix = "BigBird", .base = "bert", .style = BertStyle::big_bird};
  names.vocabulary = 50358;
  names.positions = 4096;
  names.always_pools = true;
  names.pooler = "pooler";
  names.bias_key = "use_bias";
  names.fused = false;
  names.blocks = true;
  return names;
}

// Positions are rows of a table, or rotations.
Result<Model> esm(JsonReader& config, const std::string& head, const std::string& name) {
  const std::string positions = config.text("position_embedding_type", "absolute");
  if (positions != "absolute" && positions != "rotary") {
    config.fail("position_embedding_type", "must be absolute or rotary");
  }
  if (config.boolean("is_folding_model", false)) {
    config.fail("is_folding_model",
                "is true, but what folds is not built: describe it as a "
                "module tree");
  }
  const bool rotary = positions == "rotary";
  const bool normed = config.boolean("emb_layer_norm_before", false);
  BertNames names{.prefix = "Esm", .base = "esm"};
  names.embeddings =
      rotary ? (normed ? "word norm" : "word") : (normed ? "word norm position" : "word position");
  names.attention = norm_in_front;
  names.vocabulary = 33;
  names.positions = 1026;
  names.before_mlp = "LayerNorm";
  names.late_norm = true;
  names.last_norm = "encoder.emb_layer_norm_after";
  names.first_norm = "layer_norm";
  names.rotary = rotary;
  names.contacts = true;
  return build_bert(names, config, head, name);
}

BertNames longformer() {
  BertNames names{.prefix = "Longformer", .base = "longformer"};
  names.embeddings = "word type norm position";
  names.attention =
      "self.query:q self.key:k self.value:v self.query_global:p self.key_global:p "
      "self.value_global:p output.dense:o output.LayerNorm:n";
  names.windowed = true;
  return names;
}

}  // namespace

const std::vector<EncoderFamily>& encoder_families() {
  const std::string text =
      "ForMaskedLM ForSequenceClassification ForTokenClassification "
      "ForQuestionAnswering Model";
  const std::string two_stacks =
      "ForConditionalGeneration Model EncoderModel ForSequenceClassification "
      "ForTokenClassification";
  const std::string bert_heads =
      text + " ForMultipleChoice ForPreTraining ForNextSentencePrediction";
  static const std::vector<EncoderFamily> all = {
      {"bert", "Bert", bert_heads, bert},
      {"roberta", "Roberta", text, roberta},
      like_roberta("xlm-roberta", text, "XLMRoberta", "roberta"),
      like_roberta("camembert", text, "Camembert", "roberta"),
      like_roberta("data2vec-text", text, "Data2VecText", "data2vec_text"),
      like_bert("ernie", bert_heads, ernie()),
      like_bert("layoutlm", "ForMaskedLM ForSequenceClassification ForTokenClassification Model",
                layout()),
      like_bert("longformer", text, longformer()),
      like_bert("big_bird", "ForMaskedLM ForSequenceClassification ForTokenClassification Model",
                big_bird()),
      {"esm", "Esm", "ForMaskedLM ForSequenceClassification ForTokenClassification Model", esm},
      {"albert", "Albert", text + " ForMultipleChoice", albert_model},
      like_bert("megatron-bert", bert_heads, megatron()),
      like_bert("roberta-prelayernorm", text, normed_roberta()),
      like_bert("xlm-roberta-xl", text, large_roberta()),
      {"distilbert", "DistilBert", text, distilbert},
      {"electra", "Electra", text + " ForPreTraining", electra},
      {"mpnet", "MPNet", text, mpnet},
      {"deberta", "Deberta", text, first_deberta_model},
      {"deberta-v2", "DebertaV2", text, deberta_model},
      {"modernbert", "ModernBert", text, modernbert_model},
      {"wav2vec2", "Wav2Vec2", "ForCTC ForSequenceClassification Model", wav2vec2_model},
      {"hubert", "Hubert", "ForCTC ForSequenceClassification Model", hubert_model},
      {"t5", "T5", two_stacks, t5_model},
      {"mt5", "MT5", two_stacks, mt5_model},
      {"umt5", "UMT5", two_stacks, umt5_model},
      {"switch_transformers", "SwitchTransformers", "ForConditionalGeneration Model EncoderModel",
       switch_model},
      {"longt5", "LongT5", "ForConditionalGeneration Model EncoderModel", longt5_model},
      {"t5gemma", "T5Gemma", two_stacks, t5gemma_model, true},
      {"swin", "Swin", "ForImageClassification Model ForMaskedImageModeling", swin_model},
      {"vit", "ViT", "ForImageClassification Model", vit_model},
      {"deit", "DeiT", "ForImageClassification Model ForImageClassificationWithTeacher",
       deit_model},
      {"dinov2", "Dinov2", "ForImageClassification Model", dinov2_model},
      {"dinov2_with_registers", "Dinov2WithRegisters", "ForImageClassification Model",
       dinov2_with_registers_model},
      {"vit_msn", "ViTMSN", "ForImageClassification Model", vit_msn_model},
      {"vit_mae", "ViTMAE", "ForPreTraining Model", vit_mae_model},
      {"beit", "Beit", "ForImageClassification Model ForMaskedImageModeling", beit_model},
      {"dinov3_vit", "DINOv3ViT", "Model", dinov3_vit_model},
      {"ijepa", "IJepa", "ForImageClassification Model", ijepa_model},
      {"clip_vision_model", "CLIPVision", "Model ModelWithProjection", clip_vision_model},
      {"siglip_vision_model", "SiglipVision", "Model", siglip_vision_model},
      {"gemma4_text", "Gemma4", "ForCausalLM TextModel", gemma4_model},
      {"clip", "CLIP", "Model", clip_model, true},
      {"siglip", "Siglip", "Model", siglip_model, true},
      {"whisper", "Whisper", "ForConditionalGeneration Model ForAudioClassification",
       whisper_model},
  };
  return all;
}

}  // namespace tessera
