#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Records what transformers builds from configurations of all architectures that Tessera knows.

Writes tests/golden/architectures.json: for each architecture a published configuration and random
variations of it, the number of parameters on the meta device, and for small ones the FLOPs of a
forward pass by torch's FlopCounterMode. The test of the same name compares them with what the
program builds, without torch.

    python3 tools/architecture_truth.py [--only llama,qwen3] > tests/golden/architectures.json
"""
import argparse
import copy
import inspect
import json
import random
import re
import sys

import torch
import transformers
from torch.utils.flop_counter import FlopCounterMode

MOE = dict(moe_intermediate_size=1536, num_experts_per_tok=8)
# architecture -> (class, configuration as published, sizes of small models and what they choose from)
SMALL = dict(vocab_size=[96, 130], hidden_size=[64, 96, 128], intermediate_size=[160, 200],
             num_hidden_layers=[2, 3, 4], num_attention_heads=[4, 8])
GROUPED = dict(SMALL, num_key_value_heads=[1, 2, 4])
GPT = dict(vocab_size=[96, 130], n_embd=[64, 96, 128], n_layer=[2, 3], n_head=[4, 8],
           n_inner=[None, 100], n_positions=[64, 96])
FLAG = [False, True]
BART = dict(vocab_size=[96], d_model=[64, 96], encoder_layers=[2, 3], decoder_layers=[1, 2],
            encoder_attention_heads=[4], decoder_attention_heads=[2, 4], encoder_ffn_dim=[100], decoder_ffn_dim=[80],
            max_position_embeddings=[64, 80], pad_token_id=[1], bos_token_id=[0], eos_token_id=[2],
            decoder_start_token_id=[2], forced_eos_token_id=[2])
LONG_BART = dict({key: BART[key] for key in BART if key != "max_position_embeddings"}, attention_window=[8, 16],
                 max_encoder_position_embeddings=[64, 80], max_decoder_position_embeddings=[48, 64])
LATENT = dict(SMALL, q_lora_rank=[None, 32], kv_lora_rank=[24, 32], qk_nope_head_dim=[16, 24],
              qk_rope_head_dim=[8, 16], v_head_dim=[16, 24])
BIAS = dict(attention_bias=FLAG, tie_word_embeddings=FLAG)
BERT = dict(SMALL, max_position_embeddings=[64, 80], type_vocab_size=[1, 2])
PLACED = {key: BERT[key] for key in BERT if key != "type_vocab_size"}
DEBERTA = dict(PLACED, type_vocab_size=[0, 2], relative_attention=FLAG, position_buckets=[-1, 8, 16],
               max_relative_positions=[-1, 20], norm_rel_ebd=["none", "layer_norm"], share_att_key=FLAG,
               pos_att_type=["p2c|c2p", ["c2p"], ["p2c"]], position_biased_input=FLAG,
               conv_kernel_size=[0, 3])
MODERN = dict(SMALL, pad_token_id=[0], bos_token_id=[1], eos_token_id=[2], cls_token_id=[1], sep_token_id=[2],
              norm_bias=FLAG, mlp_bias=FLAG, attention_bias=FLAG, classifier_bias=FLAG, decoder_bias=FLAG)
SPEECH = dict(SMALL, conv_dim=[[32, 32, 48]], conv_kernel=[[10, 3, 2]], conv_stride=[[5, 2, 2]],
              num_conv_pos_embeddings=[16, 7], num_conv_pos_embedding_groups=[4], conv_bias=FLAG,
              feat_extract_norm=["group", "layer"], do_stable_layer_norm=FLAG, mask_time_prob=[0.0, 0.05])
IMAGE = dict(hidden_size=[64, 96], num_hidden_layers=[2, 3], num_attention_heads=[4], intermediate_size=[100],
             image_size=[32, 40], patch_size=[8])
DINO = dict({key: IMAGE[key] for key in IMAGE if key != "intermediate_size"}, mlp_ratio=[2, 4])
MAMBA = dict(vocab_size=[96], hidden_size=[64, 96], num_hidden_layers=[2, 3], state_size=[8, 16], expand=[1, 2],
             use_bias=FLAG, use_conv_bias=FLAG)
SECOND = dict(mamba_n_heads=[8], mamba_d_head=["auto"], mamba_n_groups=[1, 2], mamba_d_state=[16, 24],
              mamba_chunk_size=[24], mamba_proj_bias=FLAG, mamba_conv_bias=FLAG)
DELTA = dict(head_dim=[16, 24], num_hidden_layers=[4], linear_num_key_heads=[2], linear_num_value_heads=[2, 4],
             linear_key_head_dim=[16, 32], linear_value_head_dim=[16, 24], full_attention_interval=[2, 4])
CLIP_TEXT = [dict(vocab_size=96, hidden_size=64, intermediate_size=100, num_hidden_layers=layers, num_attention_heads=4,
                  max_position_embeddings=24, eos_token_id=2, bos_token_id=1) for layers in (1, 2)]
TOWER = [dict(hidden_size=96, intermediate_size=100, num_hidden_layers=layers, num_attention_heads=4, image_size=40,
              patch_size=8) for layers in (2, 3)]
T5 = dict(vocab_size=[96], d_model=[64, 96], d_ff=[100], num_layers=[2, 3], num_decoder_layers=[1, 2], num_heads=[4],
          d_kv=[16, 24])
GEMMA_HALF = [dict(vocab_size=96, hidden_size=width, intermediate_size=100, num_hidden_layers=layers,
                   num_attention_heads=4, num_key_value_heads=kv, head_dim=16, attention_bias=bias, sliding_window=64)
              for width, layers, kv, bias in ((64, 2, 2, False), (96, 3, 1, True), (64, 1, 4, False))]
SWIN = dict(image_size=[64, 72], patch_size=[4], embed_dim=[32, 48], depths=[[2, 1], [1, 3]], num_heads=[[2, 4], [4, 2]],
            window_size=[4, 3], mlp_ratio=[2.0, 3.5], qkv_bias=FLAG, use_absolute_embeddings=FLAG)
# Models of more than text: (model type, class, type of the text part, its sizes); the language model counts.
WRAPPED = [
    ("gemma3", "Gemma3ForConditionalGeneration", "gemma3_text", dict(hidden_size=2560, intermediate_size=10240,
     num_hidden_layers=34)),
    ("llama4", "Llama4ForConditionalGeneration", "llama4_text", dict(num_hidden_layers=4, num_local_experts=16)),
    ("mistral3", "Mistral3ForConditionalGeneration", "mistral", dict(hidden_size=5120, intermediate_size=32768,
     num_hidden_layers=40, num_attention_heads=32, num_key_value_heads=8, head_dim=128, vocab_size=131072)),
    ("llava", "LlavaForConditionalGeneration", "llama", dict(vocab_size=32064)),
    ("llava_next", "LlavaNextForConditionalGeneration", "mistral", dict(vocab_size=32064)),
    ("llava_onevision", "LlavaOnevisionForConditionalGeneration", "qwen2", dict(hidden_size=896,
     intermediate_size=4864, num_hidden_layers=24, num_attention_heads=14, num_key_value_heads=2)),
    ("mllama", "MllamaForConditionalGeneration", "mllama_text_model", dict()),
    ("paligemma", "PaliGemmaForConditionalGeneration", "gemma2", dict(vocab_size=257216)),
    ("idefics3", "Idefics3ForConditionalGeneration", "llama", dict(vocab_size=128259, num_key_value_heads=8)),
    ("smolvlm", "SmolVLMForConditionalGeneration", "llama", dict(hidden_size=2048, num_hidden_layers=24)),
    ("internvl", "InternVLForConditionalGeneration", "qwen2", dict(hidden_size=896, num_attention_heads=14,
     num_key_value_heads=2)),
    ("qwen2_vl", "Qwen2VLForConditionalGeneration", "qwen2_vl_text", dict(hidden_size=3584, intermediate_size=18944,
     num_hidden_layers=28, num_attention_heads=28, num_key_value_heads=4)),
    ("qwen2_5_vl", "Qwen2_5_VLForConditionalGeneration", "qwen2_5_vl_text", dict(hidden_size=2048,
     intermediate_size=11008, num_hidden_layers=36, num_attention_heads=16, num_key_value_heads=2)),
    ("qwen3_vl", "Qwen3VLForConditionalGeneration", "qwen3_vl_text", dict(hidden_size=2560, intermediate_size=9728,
     num_hidden_layers=36, num_key_value_heads=8)),
    ("qwen3_vl_moe", "Qwen3VLMoeForConditionalGeneration", "qwen3_vl_moe_text", dict(num_hidden_layers=48,
     num_attention_heads=32, num_key_value_heads=4, num_experts=128, num_experts_per_tok=8,
     moe_intermediate_size=768)),
    ("qwen3_5", "Qwen3_5ForConditionalGeneration", "qwen3_5_text", dict()),
    ("lfm2_vl", "Lfm2VlForConditionalGeneration", "lfm2", dict(hidden_size=1024, num_attention_heads=16)),
    ("qwen3_5_moe", "Qwen3_5MoeForConditionalGeneration", "qwen3_5_moe_text", dict()),
    ("glm4v", "Glm4vForConditionalGeneration", "glm4v_text", dict()),
    ("glm4v_moe", "Glm4vMoeForConditionalGeneration", "glm4v_moe_text", dict(head_dim=128)),
    ("glm46v", "Glm46VForConditionalGeneration", "glm4v_text", dict(num_hidden_layers=12)),
    ("idefics2", "Idefics2ForConditionalGeneration", "mistral", dict(vocab_size=32003)),
    ("lighton_ocr", "LightOnOcrForConditionalGeneration", "qwen3", dict(hidden_size=1024, num_attention_heads=16,
     num_key_value_heads=8)),
    ("granite_speech", "GraniteSpeechForConditionalGeneration", "granite", dict(hidden_size=2048)),
    ("audioflamingo3", "AudioFlamingo3ForConditionalGeneration", "qwen2", dict(hidden_size=3584,
     num_attention_heads=28, num_key_value_heads=4)),
    ("musicflamingo", "MusicFlamingoForConditionalGeneration", "qwen2", dict(hidden_size=3584, num_attention_heads=28,
     num_key_value_heads=4)),
    ("exaone4_5", "Exaone4_5_ForConditionalGeneration", "exaone4", dict()),
    ("video_llama_3", "VideoLlama3ForConditionalGeneration", "qwen2", dict()),
    ("deepseek_vl", "DeepseekVLForConditionalGeneration", "llama", dict(hidden_size=2048, num_attention_heads=16)),
    ("deepseek_vl_hybrid", "DeepseekVLHybridForConditionalGeneration", "llama", dict()),
    ("janus", "JanusForConditionalGeneration", "llama", dict(hidden_size=2048, num_attention_heads=16)),
    ("gemma4", "Gemma4ForConditionalGeneration", "gemma4_text", dict(num_hidden_layers=6)),
    ("qwen3_asr", "Qwen3ASRForConditionalGeneration", "qwen3", dict()),
    ("kimi_k25", "Kimi_K25ForConditionalGeneration", "deepseek_v3", dict(num_hidden_layers=4)),
    ("qianfan_ocr", "QianfanOCRForConditionalGeneration", "qwen3", dict()),
    ("hyperclovax_vision_v2", "HyperCLOVAXVisionV2ForConditionalGeneration", "hyperclovax", dict()),
    ("minicpmv4_6", "MiniCPMV4_6ForConditionalGeneration", "qwen3_5_text", dict()),
    ("vibevoice_asr", "VibeVoiceAsrForConditionalGeneration", "qwen2", dict()),
    ("voxtral", "VoxtralForConditionalGeneration", "llama", dict(num_hidden_layers=4)),
    ("glmasr", "GlmAsrForConditionalGeneration", "llama", dict(num_hidden_layers=4)),
    ("qwen2_audio", "Qwen2AudioForConditionalGeneration", "qwen2", dict(vocab_size=156032)),
    ("ovis2", "Ovis2ForConditionalGeneration", "qwen2", dict(hidden_size=1536, num_attention_heads=12,
     num_key_value_heads=2, vocab_size=151643)),
    ("got_ocr2", "GotOcr2ForConditionalGeneration", "qwen2", dict(hidden_size=1024, num_attention_heads=16,
     num_key_value_heads=16)),
    ("vipllava", "VipLlavaForConditionalGeneration", "llama", dict(vocab_size=32064)),
    ("video_llava", "VideoLlavaForConditionalGeneration", "llama", dict(vocab_size=32064)),
    ("llava_next_video", "LlavaNextVideoForConditionalGeneration", "llama", dict(vocab_size=32064)),
    ("cohere2_vision", "Cohere2VisionForConditionalGeneration", "cohere2", dict(num_hidden_layers=4)),
    ("aya_vision", "AyaVisionForConditionalGeneration", "cohere2", dict(num_hidden_layers=4)),
]
# Its own defaults are no vision tower: 14 heads do not divide 1152.
TOWERS = {"aya_vision": {"vision_config": {"model_type": "siglip_vision_model", "num_attention_heads": 16}}}
ROWS = [
    ("llama", "LlamaForCausalLM", dict(vocab_size=128256, hidden_size=4096, intermediate_size=14336,
     num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, max_position_embeddings=8192),
     dict(GROUPED, mlp_bias=FLAG, **BIAS)),
    ("llama", "LlamaForSequenceClassification", dict(hidden_size=2048, num_hidden_layers=16),
     dict(GROUPED, num_labels=[3, 7])),
    ("llama", "LlamaModel", dict(), dict(GROUPED)),
    ("exaone", "LlamaForCausalLM", dict(hidden_size=2560, intermediate_size=7168, num_hidden_layers=30),
     dict(GROUPED, mlp_bias=FLAG, **BIAS)),
    ("internlm3", "LlamaForCausalLM", dict(), dict(GROUPED, head_dim=[16, None], tie_word_embeddings=FLAG)),
    ("mistral", "MistralForCausalLM", dict(vocab_size=131072, hidden_size=5120, intermediate_size=14336,
     num_hidden_layers=40, head_dim=128, sliding_window=None), dict(GROUPED, sliding_window=[4096, None])),
    ("qwen2", "Qwen2ForCausalLM", dict(vocab_size=152064, hidden_size=3584, intermediate_size=18944,
     num_hidden_layers=28, num_attention_heads=28, num_key_value_heads=4), dict(GROUPED, tie_word_embeddings=FLAG)),
    ("qwen3", "Qwen3ForCausalLM", dict(vocab_size=151936, hidden_size=4096, intermediate_size=12288,
     num_hidden_layers=36, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
     max_position_embeddings=40960), dict(GROUPED, head_dim=[16, 24], **BIAS)),
    ("smollm3", "SmolLM3ForCausalLM", dict(), dict(GROUPED, pad_token_id=[0], num_hidden_layers=[2, 4],
     no_rope_layer_interval=[2, 4], **BIAS)),
    ("qwen3_moe", "Qwen3MoeForCausalLM", dict(hidden_size=4096, intermediate_size=12288, num_hidden_layers=94,
     num_attention_heads=64, num_key_value_heads=4, head_dim=128, num_experts=128, **MOE),
     dict(GROUPED, num_experts=[4, 6], num_experts_per_tok=[2, 3], moe_intermediate_size=[48, 64],
          decoder_sparse_step=[1, 2], mlp_only_layers=[[], [1]])),
    ("qwen2_moe", "Qwen2MoeForCausalLM", dict(hidden_size=3584, intermediate_size=18944, num_hidden_layers=28,
     num_attention_heads=28, num_key_value_heads=4, num_experts=64, num_experts_per_tok=8,
     moe_intermediate_size=2560, shared_expert_intermediate_size=20480),
     dict(GROUPED, num_experts=[4, 6], num_experts_per_tok=[2, 3], moe_intermediate_size=[48, 64],
          shared_expert_intermediate_size=[80, 100], decoder_sparse_step=[1, 2])),
    ("mixtral", "MixtralForCausalLM", dict(vocab_size=32768, hidden_size=6144, intermediate_size=16384,
     num_hidden_layers=56, num_attention_heads=48, num_key_value_heads=8),
     dict(GROUPED, num_local_experts=[3, 4], num_experts_per_tok=[1, 2])),
    ("deepseek_v2", "DeepseekV2ForCausalLM", dict(vocab_size=102400, hidden_size=2048, intermediate_size=10944,
     moe_intermediate_size=1408, num_hidden_layers=27, num_attention_heads=16, num_key_value_heads=16,
     n_shared_experts=2, n_routed_experts=64, num_experts_per_tok=6, q_lora_rank=None, kv_lora_rank=512,
     first_k_dense_replace=1, topk_method="greedy"),
     dict(SMALL, q_lora_rank=[None, 32], kv_lora_rank=[24, 32], qk_nope_head_dim=[16, 24],
          qk_rope_head_dim=[8, 16], v_head_dim=[16, 24], n_routed_experts=[4, 8], num_experts_per_tok=[2],
          n_shared_experts=[1, 2], moe_intermediate_size=[40, 56], first_k_dense_replace=[0, 1],
          attention_bias=FLAG)),
    ("deepseek_v2", "DeepseekV2Model", dict(mlp_bias=True),
     dict(SMALL, q_lora_rank=[None, 32], kv_lora_rank=[24], qk_nope_head_dim=[16], qk_rope_head_dim=[8],
          v_head_dim=[16], n_routed_experts=[4], num_experts_per_tok=[2], n_shared_experts=[1, 2],
          moe_intermediate_size=[40], first_k_dense_replace=[0, 1], mlp_bias=[True])),
    ("glm4_moe_lite", "Glm4MoeLiteForCausalLM", dict(), dict(LATENT, n_routed_experts=[4, 8], num_experts_per_tok=[2],
     n_shared_experts=[1, 2], moe_intermediate_size=[40, 56], num_key_value_heads=[4], num_attention_heads=[4],
     attention_bias=FLAG)),
    ("youtu", "YoutuForCausalLM", dict(), dict(LATENT, **BIAS)),
    ("minicpm3", "MiniCPM3ForCausalLM", dict(), dict(LATENT, v_head_dim=[None, 16, 24], mlp_bias=FLAG, **BIAS)),
    ("deepseek_v3", "DeepseekV3ForCausalLM", dict(),
     dict(SMALL, q_lora_rank=[None, 32], kv_lora_rank=[24, 32], qk_nope_head_dim=[16, 24],
          qk_rope_head_dim=[8, 16], v_head_dim=[16, 24], n_routed_experts=[8, 16], num_experts_per_tok=[2, 4],
          n_group=[4], topk_group=[2], n_shared_experts=[1, 2], moe_intermediate_size=[40, 56],
          first_k_dense_replace=[0, 1])),
    ("gpt_oss", "GptOssForCausalLM", dict(num_hidden_layers=24, num_local_experts=32),
     dict(GROUPED, head_dim=[16, 24], num_local_experts=[4, 6], num_experts_per_tok=[2])),
    ("llama4_text", "Llama4ForCausalLM", dict(num_local_experts=128, interleave_moe_layer_step=2),
     dict(GROUPED, head_dim=[16, 32], num_local_experts=[2, 4], intermediate_size_mlp=[80, 96],
          interleave_moe_layer_step=[1, 2])),
    ("gemma", "GemmaForCausalLM", dict(hidden_size=2048, intermediate_size=16384, num_hidden_layers=18,
     num_attention_heads=8, num_key_value_heads=1, head_dim=256), dict(GROUPED, head_dim=[16, 24])),
    ("gemma2", "Gemma2ForCausalLM", dict(hidden_size=3584, intermediate_size=14336, num_hidden_layers=42,
     num_attention_heads=16, num_key_value_heads=8, head_dim=256), dict(GROUPED, head_dim=[16, 24])),
    ("gemma3_text", "Gemma3ForCausalLM", dict(vocab_size=262144, hidden_size=1152, intermediate_size=6912,
     num_hidden_layers=26, num_attention_heads=4, num_key_value_heads=1, head_dim=256, sliding_window=512),
     dict(GROUPED, head_dim=[16, 24])),
    ("phi", "PhiForCausalLM", dict(hidden_size=2560, intermediate_size=10240, num_hidden_layers=32,
     num_attention_heads=32), dict(SMALL, qk_layernorm=FLAG)),
    ("phi3", "Phi3ForCausalLM", dict(vocab_size=100352, hidden_size=5120, intermediate_size=17920,
     num_hidden_layers=40, num_attention_heads=40, num_key_value_heads=10, pad_token_id=0),
     dict(GROUPED, pad_token_id=[0], tie_word_embeddings=FLAG)),
    ("olmo", "OlmoForCausalLM", dict(hidden_size=2048, intermediate_size=8192, num_hidden_layers=16,
     num_attention_heads=16, num_key_value_heads=16, tie_word_embeddings=True), dict(GROUPED, **BIAS)),
    ("olmo2", "Olmo2ForCausalLM", dict(vocab_size=100352, hidden_size=5120, intermediate_size=13824,
     num_hidden_layers=40, num_attention_heads=40, num_key_value_heads=40), dict(GROUPED, **BIAS)),
    ("olmoe", "OlmoeForCausalLM", dict(hidden_size=2048, intermediate_size=1024),
     dict(GROUPED, num_experts=[4, 6], num_experts_per_tok=[2])),
    ("granite", "GraniteForCausalLM", dict(vocab_size=49155, hidden_size=2048, intermediate_size=8192,
     num_hidden_layers=40, num_key_value_heads=8, tie_word_embeddings=True), dict(GROUPED, mlp_bias=FLAG, **BIAS)),
    ("cohere", "CohereForCausalLM", dict(use_qk_norm=True), dict(GROUPED, use_qk_norm=FLAG, attention_bias=FLAG)),
    ("cohere2", "Cohere2ForCausalLM", dict(hidden_size=4096, intermediate_size=14336, num_hidden_layers=32,
     num_attention_heads=32, num_key_value_heads=8), dict(GROUPED, attention_bias=FLAG)),
    ("glm", "GlmForCausalLM", dict(), dict(GROUPED, head_dim=[16, 24], pad_token_id=[0], **BIAS)),
    ("glm4", "Glm4ForCausalLM", dict(hidden_size=6144, intermediate_size=23040, num_hidden_layers=61,
     num_attention_heads=48, num_key_value_heads=8), dict(GROUPED, head_dim=[16, 24], pad_token_id=[0], **BIAS)),
    ("stablelm", "StableLmForCausalLM", dict(vocab_size=100352, hidden_size=2048, intermediate_size=5632,
     num_hidden_layers=24, use_qkv_bias=True),
     dict(GROUPED, use_qkv_bias=FLAG, qk_layernorm=FLAG, use_parallel_residual=FLAG)),
    ("starcoder2", "Starcoder2ForCausalLM", dict(hidden_size=4608, intermediate_size=18432, num_hidden_layers=32,
     num_attention_heads=36, num_key_value_heads=4), dict(GROUPED, use_bias=FLAG, tie_word_embeddings=FLAG)),
    ("ernie4_5", "Ernie4_5ForCausalLM", dict(hidden_size=2560, intermediate_size=12288, num_hidden_layers=28,
     num_attention_heads=20, num_key_value_heads=4), dict(GROUPED, head_dim=[16, 24], use_bias=FLAG,
                                                          tie_word_embeddings=FLAG)),
    ("seed_oss", "SeedOssForCausalLM", dict(hidden_size=5120, intermediate_size=27648, num_hidden_layers=64,
     num_attention_heads=80, num_key_value_heads=8, head_dim=128),
     dict(GROUPED, head_dim=[16, 24], attention_out_bias=FLAG, mlp_bias=FLAG, **BIAS)),
    ("hunyuan_v1_dense", "HunYuanDenseV1ForCausalLM", dict(vocab_size=128167, hidden_size=4096,
     intermediate_size=14336, num_hidden_layers=32, num_attention_heads=32, num_key_value_heads=8, head_dim=128,
     tie_word_embeddings=True), dict(GROUPED, head_dim=[16, 24], **BIAS)),
    ("ministral", "MinistralForCausalLM", dict(vocab_size=131072, intermediate_size=12288, num_hidden_layers=36,
     head_dim=128, sliding_window=32768), dict(GROUPED, head_dim=[16, 24], sliding_window=[4096, None])),
    ("ministral3", "Ministral3ForCausalLM", dict(), dict(GROUPED, head_dim=[16, 24], tie_word_embeddings=FLAG)),
    ("helium", "HeliumForCausalLM", dict(), dict(SMALL, num_key_value_heads=[1, 2], head_dim=[16], hidden_size=[64],
     num_attention_heads=[4], mlp_bias=FLAG, **BIAS)),
    ("vaultgemma", "VaultGemmaForCausalLM", dict(), dict(GROUPED, head_dim=[16, 24], pad_token_id=[0],
                                                         attention_bias=FLAG)),
    ("jais2", "Jais2ForCausalLM", dict(), dict(GROUPED, head_dim=[16, 24], mlp_bias=FLAG, **BIAS)),
    ("nanochat", "NanoChatForCausalLM", dict(), dict(GROUPED, **BIAS)),
    ("olmo3", "Olmo3ForCausalLM", dict(vocab_size=100278, hidden_size=5120, intermediate_size=27648,
     num_hidden_layers=64, num_attention_heads=40, num_key_value_heads=8, max_position_embeddings=65536),
     dict(GROUPED, **BIAS)),
    ("exaone4", "Exaone4ForCausalLM", dict(hidden_size=5120, intermediate_size=27392, num_hidden_layers=64,
     num_attention_heads=40, num_key_value_heads=8, head_dim=128), dict(GROUPED, head_dim=[16, 24],
                                                                       tie_word_embeddings=FLAG)),
    ("arcee", "ArceeForCausalLM", dict(vocab_size=128004, num_hidden_layers=36, num_attention_heads=20,
     num_key_value_heads=4, head_dim=128), dict(GROUPED, head_dim=[16, 24], mlp_bias=FLAG, **BIAS)),
    ("nemotron", "NemotronForCausalLM", dict(num_key_value_heads=8, head_dim=128),
     dict(SMALL, hidden_size=[64, 128], num_attention_heads=[4, 8], head_dim=[16], num_key_value_heads=[1, 2],
          mlp_bias=FLAG, **BIAS)),
    ("apertus", "ApertusForCausalLM", dict(intermediate_size=21504, num_key_value_heads=8),
     dict(GROUPED, **BIAS)),
    ("ernie4_5_moe", "Ernie4_5_MoeForCausalLM", dict(hidden_size=8192, intermediate_size=28672, num_hidden_layers=54,
     num_attention_heads=64, num_key_value_heads=8, moe_intermediate_size=3584, moe_k=8, moe_layer_start_index=3,
     moe_layer_end_index=53, moe_num_experts=64, moe_num_shared_experts=0),
     dict(GROUPED, moe_num_experts=[4, 6], moe_k=[2, 3], moe_intermediate_size=[48, 64],
          moe_num_shared_experts=[1, 2], moe_layer_start_index=[0, 1], moe_layer_end_index=[1, 3],
          moe_layer_interval=[1, 2])),
    ("glm4_moe", "Glm4MoeForCausalLM", dict(hidden_size=5120, intermediate_size=12288, num_hidden_layers=92,
     num_attention_heads=96, num_key_value_heads=8, head_dim=128, n_routed_experts=160, num_experts_per_tok=8,
     moe_intermediate_size=1536, first_k_dense_replace=3, use_qk_norm=True, attention_bias=True),
     dict(GROUPED, head_dim=[16, 24], n_routed_experts=[4, 8], num_experts_per_tok=[2], n_shared_experts=[1, 2],
          moe_intermediate_size=[40, 56], first_k_dense_replace=[0, 1], use_qk_norm=FLAG, attention_bias=FLAG)),
    ("dots1", "Dots1ForCausalLM", dict(hidden_size=4096, intermediate_size=10944, num_hidden_layers=62,
     num_attention_heads=32, num_key_value_heads=32, n_routed_experts=128, n_shared_experts=2,
     num_experts_per_tok=6, moe_intermediate_size=1408, first_k_dense_replace=1),
     dict(SMALL, num_key_value_heads=[1, 2], n_routed_experts=[4, 8], num_experts_per_tok=[2], n_shared_experts=[1, 2],
          moe_intermediate_size=[40, 56], first_k_dense_replace=[0, 1], attention_bias=FLAG)),
    ("solar_open", "SolarOpenForCausalLM", dict(),
     dict({key: GROUPED[key] for key in GROUPED if key != "intermediate_size"}, head_dim=[16, 24], n_routed_experts=[4, 8], num_experts_per_tok=[2], n_shared_experts=[1, 2],
          moe_intermediate_size=[40, 56], **BIAS)),
    ("exaone_moe", "ExaoneMoeForCausalLM", dict(),
     dict(GROUPED, num_experts=[4, 8], num_experts_per_tok=[2], num_shared_experts=[1, 2],
          moe_intermediate_size=[40, 56], first_k_dense_replace=[0, 1], tie_word_embeddings=FLAG)),
    ("mellum", "MellumForCausalLM", dict(),
     dict(GROUPED, num_hidden_layers=[2], head_dim=[16, 24], num_experts=[4, 6], num_experts_per_tok=[2],
          moe_intermediate_size=[40, 56], mlp_layer_types=[None, ["dense", "sparse"]],
          layer_types=[None, ["full_attention", "sliding_attention"]], **BIAS)),
    ("granitemoe", "GraniteMoeForCausalLM", dict(vocab_size=49155, hidden_size=1536, intermediate_size=512,
     num_hidden_layers=32, num_attention_heads=24, num_key_value_heads=8, num_local_experts=40,
     num_experts_per_tok=8, tie_word_embeddings=True),
     dict(GROUPED, num_local_experts=[3, 4], num_experts_per_tok=[1, 2], **BIAS)),
    ("minimax_m2", "MiniMaxM2ForCausalLM", dict(),
     dict(GROUPED, head_dim=[16, 24], num_local_experts=[4, 6], num_experts_per_tok=[2, 3])),
    ("phimoe", "PhimoeForCausalLM", dict(attention_bias=True, lm_head_bias=True),
     dict(GROUPED, num_local_experts=[4, 6], num_experts_per_tok=[2], attention_bias=FLAG, lm_head_bias=FLAG)),
    ("flex_olmo", "FlexOlmoForCausalLM", dict(),
     dict(GROUPED, num_experts=[4, 6], num_experts_per_tok=[2, 3], pad_token_id=[0], **BIAS)),
    ("mamba", "MambaForCausalLM", dict(hidden_size=2560, num_hidden_layers=64), dict(MAMBA, time_step_rank=["auto", 6],
     tie_word_embeddings=FLAG)),
    ("falcon_mamba", "FalconMambaForCausalLM", dict(vocab_size=65024, hidden_size=4096, num_hidden_layers=64,
     tie_word_embeddings=False), dict(MAMBA, tie_word_embeddings=FLAG)),
    ("mamba2", "Mamba2ForCausalLM", dict(hidden_size=2560, num_heads=80, vocab_size=50288, num_hidden_layers=64),
     dict(MAMBA, hidden_size=[64], expand=[2], num_heads=[8, 4], head_dim=[16, 32], n_groups=[1, 2], chunk_size=[24],
          tie_word_embeddings=FLAG)),
    ("jamba", "JambaForCausalLM", dict(), dict(GROUPED, num_experts=[3, 4], num_experts_per_tok=[2],
     attn_layer_period=[2, 3], attn_layer_offset=[0, 1], mamba_d_state=[8, 16], mamba_expand=[1, 2],
     mamba_proj_bias=FLAG, mamba_dt_rank=["auto", 5])),
    ("bamba", "BambaForCausalLM", dict(attn_layer_indices=[9, 18, 27], mamba_d_state=128),
     dict(GROUPED, **SECOND, attn_layer_indices=[None, [1]], attention_bias=FLAG, mlp_bias=FLAG)),
    ("granitemoehybrid", "GraniteMoeHybridForCausalLM", dict(vocab_size=100352, hidden_size=1536, intermediate_size=512,
     num_hidden_layers=40, num_attention_heads=12, num_key_value_heads=4, num_local_experts=64, num_experts_per_tok=6,
     shared_intermediate_size=1024, mamba_n_heads=48, mamba_d_head=64, mamba_d_state=128, tie_word_embeddings=True,
     layer_types=["mamba" if k not in (5, 15, 25, 35) else "attention" for k in range(40)]),
     dict(GROUPED, **SECOND, num_hidden_layers=[2], num_local_experts=[0, 3], num_experts_per_tok=[2],
          shared_intermediate_size=[48], layer_types=[None, ["mamba", "attention"]], attention_bias=FLAG)),
    ("falcon_h1", "FalconH1ForCausalLM", dict(vocab_size=65536, hidden_size=2048, intermediate_size=4096,
     num_hidden_layers=24, num_attention_heads=8, num_key_value_heads=2, mamba_d_ssm=3072, mamba_n_heads=48,
     mamba_d_head=64), dict(GROUPED, **SECOND, mamba_d_ssm=[128, 64], attention_bias=FLAG, mlp_bias=FLAG,
                            projectors_bias=FLAG, mamba_rms_norm=FLAG)),
    ("lfm2", "Lfm2ForCausalLM", dict(hidden_size=2048, num_hidden_layers=16, full_attn_idxs=[2, 5, 8, 10, 12, 14]),
     dict(GROUPED, num_hidden_layers=[2], layer_types=[None, ["conv", "full_attention"]], conv_bias=FLAG,
          block_auto_adjust_ff_dim=FLAG, block_multiple_of=[32], block_ffn_dim_multiplier=[1.0, 1.5])),
    ("lfm2_moe", "Lfm2MoeForCausalLM", dict(num_hidden_layers=4, layer_types=["conv", "conv", "full_attention", "conv"]),
     dict(GROUPED, num_hidden_layers=[2], layer_types=[["conv", "full_attention"]], num_dense_layers=[0, 1],
          num_experts=[3, 4], num_experts_per_tok=[2], moe_intermediate_size=[40, 56])),
    ("qwen3_next", "Qwen3NextForCausalLM", dict(), dict(GROUPED, **DELTA, num_experts=[4, 6], num_experts_per_tok=[2, 3],
     moe_intermediate_size=[48, 64], shared_expert_intermediate_size=[80], decoder_sparse_step=[1, 2])),
    ("qwen3_5_text", "Qwen3_5ForCausalLM", dict(), dict(GROUPED, **DELTA, attention_bias=FLAG)),
    ("gpt2", "GPT2LMHeadModel", dict(n_embd=1600, n_layer=48, n_head=25), dict(GPT, tie_word_embeddings=FLAG)),
    ("gpt2", "GPT2ForSequenceClassification", dict(), dict(GPT, num_labels=[4])),
    ("gpt-sw3", "GPT2LMHeadModel", dict(n_embd=2048, n_layer=24, n_head=16, vocab_size=64000), GPT),
    ("codegen", "CodeGenForCausalLM", dict(), dict(GPT, rotary_dim=[8])),
    ("gpt_neo", "GPTNeoForCausalLM", dict(),
     dict(vocab_size=[96], hidden_size=[64, 96], num_layers=[4], num_heads=[4, 8], intermediate_size=[None, 100],
          attention_types=[[[["global", "local"], 2]], [[["global"], 1], [["local", "local", "global"], 1]]],
          max_position_embeddings=[64], tie_word_embeddings=FLAG)),
    ("persimmon", "PersimmonForCausalLM", dict(), dict(SMALL, qk_layernorm=FLAG, tie_word_embeddings=FLAG)),
    ("gpt_neox", "GPTNeoXForCausalLM", dict(),
     dict(SMALL, use_parallel_residual=FLAG, attention_bias=FLAG)),
    ("gptj", "GPTJForCausalLM", dict(), dict(GPT, rotary_dim=[8])),
    ("opt", "OPTForCausalLM", dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16, ffn_dim=4096,
     word_embed_proj_dim=512, do_layer_norm_before=False),
     dict(vocab_size=[96], hidden_size=[64, 96], num_hidden_layers=[2, 3], num_attention_heads=[4], ffn_dim=[100],
          word_embed_proj_dim=[32, 64], do_layer_norm_before=FLAG, enable_bias=FLAG,
          layer_norm_elementwise_affine=FLAG, max_position_embeddings=[64])),
    ("bloom", "BloomForCausalLM", dict(hidden_size=4096, n_layer=30, n_head=32),
     dict(vocab_size=[96], hidden_size=[64, 96], n_layer=[2, 3], n_head=[4, 8], tie_word_embeddings=FLAG)),
    ("falcon", "FalconForCausalLM", dict(hidden_size=8192, num_hidden_layers=60, num_attention_heads=128,
     num_kv_heads=8, new_decoder_architecture=True, ffn_hidden_size=32768),
     dict(vocab_size=[96], hidden_size=[64, 96], num_hidden_layers=[2, 3], num_attention_heads=[4, 8],
          ffn_hidden_size=[100, 200], num_kv_heads=[2, 4], new_decoder_architecture=FLAG, multi_query=FLAG,
          parallel_attn=FLAG, bias=FLAG, num_ln_in_parallel_attn=[1, 2])),
    ("mpt", "MptForCausalLM", dict(d_model=4096, n_layers=32, n_heads=32, vocab_size=50432),
     dict(vocab_size=[96], d_model=[64, 96], n_layers=[2, 3], n_heads=[4, 8])),
    ("gpt_bigcode", "GPTBigCodeForCausalLM", dict(n_embd=6144, n_layer=40, n_head=48, n_inner=24576,
     n_positions=8192, vocab_size=49152), dict(GPT, multi_query=FLAG)),
    ("bert", "BertForMaskedLM", dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
     intermediate_size=4096), BERT),
    ("bert", "BertModel", dict(), BERT),
    ("bert", "BertForSequenceClassification", dict(num_labels=5), dict(BERT, num_labels=[3])),
    ("bert", "BertForTokenClassification", dict(num_labels=9), dict(BERT, num_labels=[3])),
    ("bert", "BertForQuestionAnswering", dict(), dict(BERT, num_labels=[2, 3])),
    ("roberta", "RobertaForMaskedLM", dict(max_position_embeddings=514, type_vocab_size=1), BERT),
    ("roberta", "RobertaForSequenceClassification", dict(), dict(BERT, num_labels=[3])),
    ("roberta", "RobertaModel", dict(), BERT),
    ("xlm-roberta", "XLMRobertaForMaskedLM", dict(vocab_size=250002, hidden_size=1024, num_hidden_layers=24,
     num_attention_heads=16, intermediate_size=4096, max_position_embeddings=514, type_vocab_size=1), BERT),
    ("xlm-roberta", "XLMRobertaForQuestionAnswering", dict(), dict(BERT, num_labels=[2, 3])),
    ("camembert", "CamembertForTokenClassification", dict(), dict(BERT, num_labels=[3])),
    ("data2vec-text", "Data2VecTextForMaskedLM", dict(), BERT),
    ("distilbert", "DistilBertForMaskedLM", dict(),
     dict(vocab_size=[96], dim=[64, 96], hidden_dim=[100], n_layers=[2, 3], n_heads=[4], max_position_embeddings=[64])),
    ("distilbert", "DistilBertForSequenceClassification", dict(),
     dict(vocab_size=[96], dim=[64, 96], hidden_dim=[100], n_layers=[2, 3], n_heads=[4], num_labels=[3])),
    ("t5", "T5ForConditionalGeneration", dict(d_model=4096, d_ff=10240, num_layers=24, num_heads=64,
     feed_forward_proj="gated-gelu", tie_word_embeddings=False),
     dict(vocab_size=[96], d_model=[64, 96], d_ff=[100], d_kv=[16, 24], num_layers=[2, 3], num_decoder_layers=[2, 4],
          num_heads=[4], feed_forward_proj=["relu", "gated-gelu"], tie_word_embeddings=FLAG)),
    ("mt5", "MT5ForConditionalGeneration", dict(d_model=1024, d_ff=2816, num_layers=24, num_heads=16),
     dict(vocab_size=[96], d_model=[64], d_ff=[100], d_kv=[16, 24], num_layers=[2, 3], num_heads=[4])),
    ("umt5", "UMT5ForConditionalGeneration", dict(d_model=2048, d_ff=5120, num_layers=24, num_heads=32),
     dict(vocab_size=[96], d_model=[64], d_ff=[100], d_kv=[16, 24], num_layers=[2, 3], num_heads=[4])),
    ("bart", "BartForConditionalGeneration", dict(vocab_size=50264), BART),
    ("bart", "BartForQuestionAnswering", dict(), BART),
    ("mbart", "MBartForConditionalGeneration", dict(vocab_size=250027), BART),
    ("plbart", "PLBartForConditionalGeneration", dict(), BART),
    ("pegasus", "PegasusForConditionalGeneration", dict(vocab_size=96103, encoder_layers=16, decoder_layers=16), BART),
    ("marian", "MarianMTModel", dict(d_model=512, encoder_ffn_dim=2048, decoder_ffn_dim=2048, encoder_layers=6,
     decoder_layers=6, encoder_attention_heads=8, decoder_attention_heads=8, max_position_embeddings=512),
     dict(BART, decoder_start_token_id=[0])),
    ("m2m_100", "M2M100ForConditionalGeneration", dict(vocab_size=256206, encoder_layers=24, decoder_layers=24,
     encoder_ffn_dim=8192, decoder_ffn_dim=8192), BART),
    ("blenderbot", "BlenderbotForConditionalGeneration", dict(), BART),
    ("blenderbot-small", "BlenderbotSmallForConditionalGeneration", dict(), BART),
    ("mvp", "MvpForConditionalGeneration", dict(), BART),
    ("bart", "BartForCausalLM", dict(), BART),
    ("marian", "MarianForCausalLM", dict(), dict(BART, decoder_start_token_id=[0])),
    ("pegasus", "PegasusForCausalLM", dict(), BART),
    ("electra", "ElectraForPreTraining", dict(embedding_size=1024, hidden_size=1024, num_hidden_layers=24,
     num_attention_heads=16, intermediate_size=4096), dict(BERT, embedding_size=[32, 64])),
    ("electra", "ElectraForMaskedLM", dict(), dict(BERT, embedding_size=[32, 64])),
    ("electra", "ElectraForSequenceClassification", dict(), dict(BERT, embedding_size=[32, 64], num_labels=[3])),
    ("mpnet", "MPNetForMaskedLM", dict(max_position_embeddings=514), PLACED),
    ("mpnet", "MPNetModel", dict(), dict(PLACED, relative_attention_num_buckets=[16, 32])),
    ("mpnet", "MPNetForSequenceClassification", dict(), dict(PLACED, num_labels=[3])),
    ("deberta-v2", "DebertaV2ForSequenceClassification", dict(hidden_size=768, num_hidden_layers=12,
     num_attention_heads=12, intermediate_size=3072, relative_attention=True, position_buckets=256,
     norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type="p2c|c2p", position_biased_input=False,
     max_relative_positions=-1), DEBERTA),
    ("deberta-v2", "DebertaV2ForMaskedLM", dict(conv_kernel_size=3, conv_act="gelu", relative_attention=True,
     position_buckets=256, norm_rel_ebd="layer_norm", share_att_key=True, pos_att_type="p2c|c2p",
     position_biased_input=False), DEBERTA),
    ("deberta-v2", "DebertaV2Model", dict(), dict(DEBERTA, embedding_size=[32])),
    ("xglm", "XGLMForCausalLM", dict(d_model=2048, ffn_dim=8192, num_layers=48), dict(vocab_size=[96],
     d_model=[64, 96], ffn_dim=[100, 200], num_layers=[2, 3], attention_heads=[4])),
    ("biogpt", "BioGptForCausalLM", dict(), dict(SMALL, max_position_embeddings=[64, 80])),
    ("openai-gpt", "OpenAIGPTLMHeadModel", dict(), {key: GPT[key] for key in GPT if key != "n_inner"}),
    ("clip_text_model", "CLIPTextModel", dict(hidden_size=768, intermediate_size=3072, num_attention_heads=12),
     dict(SMALL, max_position_embeddings=[64], eos_token_id=[2], bos_token_id=[1])),
    ("siglip_text_model", "SiglipTextModel", dict(), dict(SMALL, max_position_embeddings=[64], projection_size=[48, 64],
                                                          eos_token_id=[2], bos_token_id=[1])),
    ("modernbert", "ModernBertForMaskedLM", dict(hidden_size=1024, intermediate_size=2624, num_hidden_layers=28,
     num_attention_heads=16), MODERN),
    ("modernbert", "ModernBertForSequenceClassification", dict(), dict(MODERN, num_labels=[3])),
    ("modernbert", "ModernBertModel", dict(), MODERN),
    ("wav2vec2", "Wav2Vec2ForCTC", dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
     intermediate_size=4096, feat_extract_norm="layer", conv_bias=True, do_stable_layer_norm=True), SPEECH),
    ("wav2vec2", "Wav2Vec2Model", dict(), SPEECH),
    ("hubert", "HubertForSequenceClassification", dict(), dict(SPEECH, num_labels=[5], classifier_proj_size=[48])),
    ("hubert", "HubertForCTC", dict(), dict(SPEECH, feat_proj_layer_norm=FLAG)),
    ("deit", "DeiTForImageClassification", dict(hidden_size=384, num_attention_heads=6, intermediate_size=1536),
     dict(IMAGE, num_labels=[5], qkv_bias=FLAG)),
    ("deit", "DeiTForImageClassificationWithTeacher", dict(), dict(IMAGE, num_labels=[5])),
    ("deit", "DeiTModel", dict(), dict(IMAGE, pooler_output_size=[48, 64])),
    ("dinov2", "Dinov2ForImageClassification", dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
     image_size=518), dict(DINO, num_labels=[5], qkv_bias=FLAG)),
    ("dinov2", "Dinov2Model", dict(hidden_size=1536, num_hidden_layers=40, num_attention_heads=24, use_swiglu_ffn=True,
     image_size=518), dict(DINO, use_swiglu_ffn=FLAG, use_mask_token=FLAG)),
    ("clip_vision_model", "CLIPVisionModel", dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
     intermediate_size=4096, patch_size=14, image_size=336), IMAGE),
    ("clip_vision_model", "CLIPVisionModelWithProjection", dict(), dict(IMAGE, projection_dim=[48, 64])),
    ("siglip_vision_model", "SiglipVisionModel", dict(hidden_size=1152, num_hidden_layers=27, num_attention_heads=16,
     intermediate_size=4304, patch_size=14, image_size=384), dict(IMAGE, vision_use_head=FLAG)),
    ("t5", "T5EncoderModel", dict(), dict(vocab_size=[96], d_model=[64], d_ff=[100], num_layers=[2, 3], num_heads=[4],
     is_gated_act=FLAG)),
    ("vit", "ViTForImageClassification", dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
     intermediate_size=4096), dict(hidden_size=[64, 96], num_hidden_layers=[2, 3], num_attention_heads=[4],
     intermediate_size=[100], image_size=[32, 40], patch_size=[8], num_labels=[5], qkv_bias=FLAG)),
    ("vit", "ViTModel", dict(), dict(head_dim=[16, 24], hidden_size=[64, 96], num_hidden_layers=[2, 3], num_attention_heads=[4],
     intermediate_size=[100], image_size=[32], patch_size=[8], pooler_output_size=[48, 64])),
    ("whisper", "WhisperForConditionalGeneration", dict(d_model=1280, encoder_layers=32, decoder_layers=32,
     encoder_attention_heads=20, decoder_attention_heads=20, encoder_ffn_dim=5120, decoder_ffn_dim=5120,
     vocab_size=51866, num_mel_bins=128),
     dict(vocab_size=[96], d_model=[64, 96], encoder_layers=[2, 3], decoder_layers=[1, 2], encoder_attention_heads=[4],
          decoder_attention_heads=[2, 4], encoder_ffn_dim=[100], decoder_ffn_dim=[80], max_source_positions=[40],
          max_target_positions=[32, 48], pad_token_id=[0], bos_token_id=[0], eos_token_id=[0],
          decoder_start_token_id=[0], begin_suppress_tokens=[[]])),
    ("iquestcoder", "LlamaForCausalLM", dict(), dict(GROUPED, mlp_bias=FLAG, head_dim=[16, None], **BIAS)),
    ("hyperclovax", "HyperCLOVAXForCausalLM", dict(), dict(GROUPED, mlp_bias=FLAG, use_post_norm=FLAG, head_dim=[16, 24],
     **BIAS)),
    ("bitnet", "BitNetForCausalLM", dict(), dict(GROUPED, **BIAS)),
    ("glm4v_text", "Glm4vTextModel", dict(), dict(GROUPED)),
    ("cwm", "CwmForCausalLM", dict(), dict(GROUPED, num_attention_heads=[4, 8], head_dim=[16, 24], mlp_bias=FLAG,
     sliding_window=[8, 4096], tie_word_embeddings=FLAG)),
    ("granite_swa", "GraniteSWAForCausalLM", dict(), dict(GROUPED, mlp_bias=FLAG, sliding_window=[8, 16], **BIAS)),
    ("granitemoe_swa", "GraniteMoeSWAForCausalLM", dict(), dict(GROUPED, num_local_experts=[4, 6],
     num_experts_per_tok=[2], shared_intermediate_size=[0, 48], **BIAS)),
    ("granitemoeshared", "GraniteMoeSharedForCausalLM", dict(), dict(GROUPED, num_local_experts=[4, 6],
     num_experts_per_tok=[2], shared_intermediate_size=[0, 48], **BIAS)),
    ("flint", "FlintForCausalLM", dict(), dict(GROUPED, head_dim=[16, 24], num_experts=[4, 6], num_experts_per_tok=[2],
     moe_intermediate_size=[40, 56], shared_expert_intermediate_size=[48], mlp_only_layers=[[0, 1], [], [1]],
     attention_bias=FLAG)),
    ("kolibri1", "Kolibri1ForCausalLM", dict(), dict({key: GROUPED[key] for key in GROUPED if key != "intermediate_size"},
     head_dim=[16, 24], num_local_experts=[4, 6], num_experts_per_tok=[2], moe_intermediate_size=[40, 56],
     shared_expert_intermediate_size=[48])),
    *[(kind, prefix + head, dict(), dict(sizes, **({} if head == "ForMaskedLM" else dict(num_labels=[3, 7])))) for kind, prefix, sizes in (
        ("ernie", "Ernie", dict(BERT, use_task_id=FLAG)),
        ("layoutlm", "LayoutLM", dict(BERT, max_2d_position_embeddings=[64, 80])),
        ("longformer", "Longformer", dict(BERT, attention_window=[8, 16], pad_token_id=[1])),
        ("megatron-bert", "MegatronBert", BERT), ("roberta-prelayernorm", "RobertaPreLayerNorm", BERT),
        ("xlm-roberta-xl", "XLMRobertaXL", BERT)) for head in ("ForMaskedLM", "ForSequenceClassification")],
    *[("albert", "Albert" + head, dict(), dict(BERT, embedding_size=[32, 64], num_hidden_groups=[1, 2],
       inner_group_num=[1, 2], num_hidden_layers=[3, 4])) for head in ("ForMaskedLM", "ForSequenceClassification",
                                                                     "ForQuestionAnswering", "Model")],
    *[("esm", "Esm" + head, dict(vocab_size=33, pad_token_id=1, mask_token_id=32, hidden_size=1280, num_hidden_layers=33,
       num_attention_heads=20, intermediate_size=5120, position_embedding_type="rotary"),
       dict(PLACED, pad_token_id=[1], mask_token_id=[32], emb_layer_norm_before=FLAG,
            position_embedding_type=["absolute", "rotary"])) for head in ("ForMaskedLM", "ForTokenClassification", "Model")],
    *[("big_bird", "BigBird" + head, dict(), dict(BERT, use_bias=FLAG, attention_type=["original_full", "block_sparse"],
       pad_token_id=[0])) for head in ("ForMaskedLM", "ForSequenceClassification", "ForTokenClassification", "Model")],
    ("fsmt", "FSMTForConditionalGeneration", dict(), dict({key: BART[key] for key in BART if key != "vocab_size"},
     src_vocab_size=[96, 80], tgt_vocab_size=[96, 72])),
    ("fsmt", "FSMTModel", dict(), dict({key: BART[key] for key in BART if key != "vocab_size"}, src_vocab_size=[96],
     tgt_vocab_size=[96, 72])),
    ("nllb-moe", "NllbMoeForConditionalGeneration", dict(vocab_size=256206, encoder_layers=24, decoder_layers=24,
     encoder_ffn_dim=8192, decoder_ffn_dim=8192, num_experts=8), dict(BART, num_experts=[2, 3], router_bias=FLAG,
     encoder_sparse_step=[0, 1, 2], decoder_sparse_step=[1, 2], expert_capacity=[64], moe_token_dropout=[0.0])),
    ("led", "LEDForConditionalGeneration", dict(), LONG_BART),
    ("led", "LEDModel", dict(), LONG_BART),
    ("pegasus_x", "PegasusXForConditionalGeneration", dict(), dict(BART, num_global_tokens=[4, 8], block_size=[8])),
    ("bigbird_pegasus", "BigBirdPegasusForConditionalGeneration", dict(), dict(BART, use_bias=FLAG)),
    ("bigbird_pegasus", "BigBirdPegasusForSequenceClassification", dict(), dict(BART, num_labels=[3, 7])),
    ("hy_v3", "HYV3ForCausalLM", dict(), dict(GROUPED, head_dim=[16, 24], num_experts=[4, 6], num_experts_per_tok=[2],
     moe_intermediate_size=[40, 56], num_shared_experts=[1, 2], mlp_bias=FLAG, **BIAS)),
    ("glm4v_moe_text", "Glm4vMoeTextModel", dict(head_dim=128), dict(GROUPED, n_routed_experts=[4, 8], num_experts_per_tok=[2],
     n_shared_experts=[1, 2], moe_intermediate_size=[40, 56], first_k_dense_replace=[0, 1], attention_bias=FLAG)),
    ("sarvam_moe", "Glm4MoeForCausalLM", dict(), dict(GROUPED, head_dim=[16], n_routed_experts=[4, 8],
     num_experts_per_tok=[2], n_shared_experts=[1, 2], moe_intermediate_size=[40, 56], use_qk_norm=FLAG, **BIAS)),
    ("sarvam_mla", "DeepseekV3ForCausalLM", dict(), dict(LATENT, n_routed_experts=[4, 8], num_experts_per_tok=[2],
     n_shared_experts=[1], moe_intermediate_size=[40, 56], first_k_dense_replace=[0, 1])),
    ("deepseek_v32", "DeepseekV32ForCausalLM", dict(), dict(LATENT, q_lora_rank=[32, 40], n_routed_experts=[8],
     num_experts_per_tok=[2], n_group=[4], topk_group=[2], n_shared_experts=[1, 2], moe_intermediate_size=[40, 56],
     first_k_dense_replace=[0, 1], index_n_heads=[2, 4], index_head_dim=[16, 32], attention_bias=FLAG)),
    ("glm_moe_dsa", "GlmMoeDsaForCausalLM", dict(), dict(LATENT, q_lora_rank=[32, 40], n_routed_experts=[8],
     num_experts_per_tok=[2], n_shared_experts=[1, 2], moe_intermediate_size=[40, 56], num_hidden_layers=[4],
     first_k_dense_replace=[0, 1], index_n_heads=[2, 4], index_head_dim=[16, 32], index_topk_freq=[1, 2],
     indexer_types=[None, ["full", "shared", "full", "shared"]])),
    ("axk1", "AXK1ForCausalLM", dict(), dict(LATENT, q_lora_rank=[32, 40], n_routed_experts=[8], n_group=[4],
     topk_group=[2], num_experts_per_tok=[2], n_shared_experts=[1, 2], moe_intermediate_size=[40, 56],
     num_hidden_layers=[3])),
    ("qwen3_5_moe_text", "Qwen3_5MoeForCausalLM", dict(), dict({key: GROUPED[key] for key in GROUPED if key !=
     "intermediate_size"}, num_experts=[4, 6], num_experts_per_tok=[2], moe_intermediate_size=[48, 64],
     shared_expert_intermediate_size=[80], **DELTA)),
    ("olmo_hybrid", "OlmoHybridForCausalLM", dict(),
     dict({key: GROUPED[key] for key in GROUPED if key !=
     "num_hidden_layers"}, num_hidden_layers=[4, 5], pad_token_id=[0], eos_token_id=[1], linear_num_key_heads=[2], linear_num_value_heads=[2],
     linear_key_head_dim=[16, 32], linear_value_head_dim=[16, 24], **BIAS)),
    ("minimax", "MiniMaxForCausalLM", dict(head_dim=128), dict(GROUPED, head_dim=[16, 24], num_local_experts=[4, 6],
     num_experts_per_tok=[2], block_size=[8, 24])),
    ("nemotron_h", "NemotronHForCausalLM", dict(layers_block_type=["linear_attention", "mlp"] * 12 + ["full_attention",
     "moe"] * 4), dict(vocab_size=[96], hidden_size=[64, 96], intermediate_size=[100], num_attention_heads=[4, 8],
     num_key_value_heads=[1, 2], head_dim=[16, 24], mamba_num_heads=[8], mamba_head_dim=[16, 24], n_groups=[1, 2],
     ssm_state_size=[16, 24], chunk_size=[24], use_bias=FLAG, use_conv_bias=FLAG, mlp_bias=FLAG, n_routed_experts=[4],
     num_experts_per_tok=[2], moe_intermediate_size=[40, 48], moe_shared_expert_intermediate_size=[56],
     moe_latent_size=[None, 32], layers_block_type=[["linear_attention", "mlp", "full_attention", "moe"],
     ["linear_attention", "moe", "linear_attention", "full_attention"]])),
    ("gemma3_text", "Gemma3TextModel", dict(hidden_size=768, intermediate_size=1152, num_hidden_layers=24,
     num_attention_heads=3, num_key_value_heads=1, vocab_size=262144), dict(GROUPED, head_dim=[16, 24])),
    *[(kind, prefix + head, dict(), BERT) for kind, prefix in (("bert", "Bert"), ("ernie", "Ernie"),
       ("megatron-bert", "MegatronBert")) for head in ("ForPreTraining", "ForNextSentencePrediction")],
    *[(kind, name, dict(hidden_size=100, num_hidden_layers=3, num_attention_heads=8, num_key_value_heads=2),
       dict(GROUPED, hidden_size=[100, 68, 132], num_attention_heads=[8], num_key_value_heads=[2], **more))
      for kind, name, more in (("qwen2", "Qwen2ForCausalLM", {}), ("mistral", "MistralForCausalLM", {}),
        ("phi3", "Phi3ForCausalLM", dict(pad_token_id=[0])), ("olmo2", "Olmo2ForCausalLM", {}))],
    ("eurobert", "EuroBertForMaskedLM", dict(hidden_size=1152, intermediate_size=4096, num_hidden_layers=28,
     num_attention_heads=18, num_key_value_heads=6, head_dim=64), dict(GROUPED, pad_token_id=[0], mlp_bias=FLAG, **BIAS)),
    ("eurobert", "EuroBertModel", dict(), dict(GROUPED, pad_token_id=[0])),
    ("hunyuan_v1_moe", "HunYuanMoEV1ForCausalLM", dict(vocab_size=128167, intermediate_size=3072, num_experts=64,
     moe_topk=[8] * 32, num_key_value_heads=8, head_dim=128, tie_word_embeddings=True),
     dict(GROUPED, head_dim=[16, 24], num_experts=[3, 4], moe_topk=[1, 2], **BIAS)),
    ("afmoe", "AfmoeForCausalLM", dict(num_hidden_layers=32, num_dense_layers=2, num_experts=128, num_experts_per_tok=8,
     moe_intermediate_size=1024, num_shared_experts=1, num_key_value_heads=4, mup_enabled=True),
     dict(GROUPED, head_dim=[16, 24], num_experts=[4, 6], num_experts_per_tok=[2, 3], moe_intermediate_size=[40, 56],
          num_shared_experts=[1, 2], num_dense_layers=[0, 1], global_attn_every_n_layers=[2, 4], mup_enabled=FLAG, **BIAS)),
    ("aria_text", "AriaTextForCausalLM", dict(vocab_size=100352, hidden_size=2560, intermediate_size=1664,
     num_hidden_layers=28, num_attention_heads=20, num_key_value_heads=20, moe_num_experts=64, moe_topk=6),
     dict(GROUPED, moe_num_experts=[4, 6], moe_topk=[2, 3], moe_num_shared_experts=[1, 2], pad_token_id=[0],
          mlp_bias=FLAG, **BIAS)),
    ("dbrx", "DbrxForCausalLM", dict(d_model=6144, n_heads=48, n_layers=40, max_seq_len=32768, vocab_size=100352,
     attn_config=dict(clip_qkv=8, kv_n_heads=8, rope_theta=500000), ffn_config=dict(ffn_hidden_size=10752,
     moe_num_experts=16, moe_top_k=4)),
     dict(vocab_size=[96], d_model=[64, 96], n_heads=[4, 8], n_layers=[2, 3], max_seq_len=[64],
          attn_config=[dict(kv_n_heads=k, rope_theta=1e4, clip_qkv=8) for k in (1, 2, 4)],
          ffn_config=[dict(ffn_hidden_size=f, moe_num_experts=4, moe_top_k=k) for f in (40, 56) for k in (1, 2)])),
    ("nomic_bert", "NomicBertModel", dict(), dict(SMALL, type_vocab_size=[1, 2], head_dim=[None, 24])),
    ("nomic_bert", "NomicBertForMaskedLM", dict(max_position_embeddings=8192), dict(SMALL, type_vocab_size=[1, 2])),
    ("modernbert-decoder", "ModernBertDecoderForCausalLM", dict(hidden_size=1024, intermediate_size=2624,
     num_hidden_layers=28, num_attention_heads=16), {key: MODERN[key] for key in MODERN}),
    *[("deberta", "Deberta" + head, dict(relative_attention=True, pos_att_type="c2p|p2c", position_biased_input=False),
       {key: DEBERTA[key] for key in DEBERTA if key not in ("max_relative_positions", "position_buckets", "share_att_key",
        "norm_rel_ebd", "conv_kernel_size")}) for head in ("ForMaskedLM", "ForSequenceClassification", "Model")],
    *[("dinov2_with_registers", "Dinov2WithRegisters" + head, dict(hidden_size=1024, num_hidden_layers=24,
       num_attention_heads=16, image_size=518, patch_size=14), dict(DINO, num_register_tokens=[2, 4], qkv_bias=FLAG,
       use_swiglu_ffn=FLAG, **more)) for head, more in (("ForImageClassification", dict(num_labels=[5])), ("Model", {}))],
    *[(kind, prefix + head, dict(), dict(IMAGE, qkv_bias=FLAG, **more)) for kind, prefix in (("vit_msn", "ViTMSN"),
       ("ijepa", "IJepa")) for head, more in (("ForImageClassification", dict(num_labels=[5])), ("Model", {}))],
    *[(kind, name, dict(), GROUPED) for kind, name in (("qwen2_vl_text", "Qwen2VLTextModel"), ("qwen2_5_vl_text",
       "Qwen2_5_VLTextModel"), ("qwen3_vl_text", "Qwen3VLTextModel"))],
    ("qwen3_vl_moe_text", "Qwen3VLMoeTextModel", dict(), dict(GROUPED, num_experts=[4, 6], num_experts_per_tok=[2],
     moe_intermediate_size=[40, 56])),
    ("vit_mae", "ViTMAEForPreTraining", dict(hidden_size=1024, num_hidden_layers=24, num_attention_heads=16,
     intermediate_size=4096), dict(IMAGE, qkv_bias=FLAG, decoder_hidden_size=[48, 64], decoder_num_hidden_layers=[1, 2],
     decoder_num_attention_heads=[4], decoder_intermediate_size=[80], mask_ratio=[0.75, 0.5])),
    ("vit_mae", "ViTMAEModel", dict(), dict(IMAGE, qkv_bias=FLAG, mask_ratio=[0.75, 0.6])),
    *[("beit", "Beit" + head, dict(use_relative_position_bias=True), dict(IMAGE, use_mask_token=FLAG,
       use_absolute_position_embeddings=FLAG, use_relative_position_bias=FLAG, use_shared_relative_position_bias=FLAG,
       use_mean_pooling=FLAG, layer_scale_init_value=[0.1, 0.0], vocab_size=[96], **more)) for head, more in
      (("ForImageClassification", dict(num_labels=[5])), ("Model", {}), ("ForMaskedImageModeling", {}))],
    ("dinov3_vit", "DINOv3ViTModel", dict(hidden_size=1024, intermediate_size=4096, num_hidden_layers=24,
     num_attention_heads=16, num_register_tokens=4), dict(IMAGE, num_register_tokens=[0, 4], query_bias=FLAG,
     key_bias=FLAG, value_bias=FLAG, proj_bias=FLAG, mlp_bias=FLAG, use_gated_mlp=FLAG)),
    ("gemma4_text", "Gemma4ForCausalLM", dict(hidden_size=1536, intermediate_size=6144, num_hidden_layers=35,
     num_key_value_heads=1, num_kv_shared_layers=20, use_double_wide_mlp=True, final_logit_softcapping=30.0,
     layer_types=(["sliding_attention"] * 4 + ["full_attention"]) * 7),
     dict(GROUPED, num_hidden_layers=[4, 6], layer_types=[None], head_dim=[16, 24], global_head_dim=[32], final_logit_softcapping=[None, 30.0],
          num_global_key_value_heads=[None, 1], attention_k_eq_v=FLAG, hidden_size_per_layer_input=[0, 16, 24],
          vocab_size_per_layer_input=[64, 96], use_double_wide_mlp=FLAG, enable_moe_block=FLAG, num_experts=[4],
          top_k_experts=[2], moe_intermediate_size=[40, 56], sliding_window=[64], **BIAS)),
    ("gemma4_text", "Gemma4TextModel", dict(), dict(GROUPED, num_hidden_layers=[6],
     layer_types=[["sliding_attention", "full_attention"] * 3], num_kv_shared_layers=[2, 3], head_dim=[16], global_head_dim=[32],
     use_double_wide_mlp=FLAG, hidden_size_per_layer_input=[16], vocab_size_per_layer_input=[64], attention_bias=FLAG)),
    ("switch_transformers", "SwitchTransformersForConditionalGeneration", dict(d_model=1024, d_ff=2816, d_kv=64,
     num_layers=24, num_decoder_layers=24, num_heads=16, num_experts=128, num_sparse_encoder_layers=12,
     num_sparse_decoder_layers=12), dict(T5, num_layers=[2, 4], num_decoder_layers=[2, 3], num_experts=[2, 4],
     num_sparse_encoder_layers=[0, 1, 2], num_sparse_decoder_layers=[0, 1], router_bias=FLAG)),
    ("switch_transformers", "SwitchTransformersEncoderModel", dict(), dict({key: T5[key] for key in T5 if key !=
     "num_decoder_layers"}, num_experts=[2, 4], num_sparse_encoder_layers=[1, 2])),
    ("longt5", "LongT5ForConditionalGeneration", dict(d_model=768, d_ff=2048, num_layers=12, num_heads=12,
     feed_forward_proj="gated-gelu", encoder_attention_type="transient-global"), dict(T5, local_radius=[7, 11],
     feed_forward_proj=["relu", "gated-gelu"], encoder_attention_type=["local", "transient-global"],
     global_block_size=[4, 8])),
    ("longt5", "LongT5EncoderModel", dict(), dict({key: T5[key] for key in T5 if key != "num_decoder_layers"},
     local_radius=[7, 11], encoder_attention_type=["local", "transient-global"], global_block_size=[4, 8])),
    ("t5gemma", "T5GemmaForConditionalGeneration", dict(encoder=dict(hidden_size=3584, intermediate_size=14336,
     num_hidden_layers=42, num_attention_heads=16, num_key_value_heads=8), decoder=dict()),
     dict(encoder=GEMMA_HALF, decoder=GEMMA_HALF, tie_word_embeddings=FLAG)),
    ("t5gemma", "T5GemmaEncoderModel", dict(is_encoder_decoder=False), dict(encoder=GEMMA_HALF, decoder=GEMMA_HALF[:1],
     is_encoder_decoder=[False])),
    *[("t5gemma", "T5Gemma" + head, dict(), dict(encoder=GEMMA_HALF, decoder=GEMMA_HALF, is_encoder_decoder=FLAG,
       num_labels=[3, 7])) for head in ("ForSequenceClassification", "ForTokenClassification")],
    ("swin", "SwinForImageClassification", dict(image_size=384, embed_dim=192, depths=[2, 2, 18, 2],
     num_heads=[6, 12, 24, 48], window_size=12), dict(SWIN, num_labels=[5])),
    ("swin", "SwinModel", dict(), SWIN),
    ("swin", "SwinForMaskedImageModeling", dict(image_size=192, window_size=6, embed_dim=128, num_heads=[4, 8, 16, 32],
     depths=[2, 2, 18, 2]), dict(SWIN, encoder_stride=[8, 16])),
    ("mllama_text_model", "MllamaForCausalLM", dict(), dict(GROUPED, pad_token_id=[0], cross_attention_layers=[[1], [0, 1], []])),
    ("clip", "CLIPModel", dict(projection_dim=768, text_config=dict(hidden_size=768, intermediate_size=3072,
     num_attention_heads=12, projection_dim=768), vision_config=dict(hidden_size=1024, intermediate_size=4096,
     num_hidden_layers=24, num_attention_heads=16, patch_size=14, projection_dim=768)),
     dict(projection_dim=[48, 64], text_config=CLIP_TEXT, vision_config=TOWER)),
    ("siglip", "SiglipModel", dict(), dict(text_config=[dict(each, projection_size=96) for each in CLIP_TEXT],
     vision_config=TOWER)),
]


def build(kind, name, settings, device):
    config = transformers.CONFIG_MAPPING[kind](**settings)
    config._attn_implementation = "eager"
    config._experts_implementation = "eager"  # the counter does not know grouped matmuls
    with torch.device(device):
        return getattr(transformers, name)(config), config


def inputs_of(model, config, tokens):
    if hasattr(config, "vision_config"):
        size = config.vision_config.image_size
        return dict(pixel_values=torch.zeros(1, 3, size, size), input_ids=torch.ones(1, tokens, dtype=torch.long))
    if hasattr(config, "patch_size"):
        return dict(pixel_values=torch.zeros(1, 3, config.image_size, config.image_size))
    if hasattr(config, "conv_stride"):
        samples = tokens
        for kernel, stride in reversed(list(zip(config.conv_kernel, config.conv_stride))):
            samples = (samples - 1) * stride + kernel
        return dict(input_values=torch.zeros(1, samples))
    ids = torch.zeros(1, tokens, dtype=torch.long)
    if config.model_type == "whisper":
        frames = torch.zeros(1, config.num_mel_bins, 2 * config.max_source_positions)
        return dict(input_features=frames, decoder_input_ids=ids)
    if config.is_encoder_decoder and "Encoder" not in type(model).__name__:
        return dict(input_ids=ids, decoder_input_ids=ids)
    ids = ids + 5  # no padding
    if not hasattr(config, "pad_token_id") or config.pad_token_id is None:
        config.pad_token_id = 1
    takes = inspect.signature(model.forward).parameters
    return dict(input_ids=ids, **(dict(use_cache=False) if "use_cache" in takes else {}))


def record_wrapped(kind, name, text, sizes, outer):
    settings = {**outer, **TOWERS.get(kind, {}), "text_config": {"model_type": text, **sizes}}
    # The class adds its defaults to the text part that it is given.
    model, _ = build(kind, name, copy.deepcopy(settings), "meta")
    mine = [p for n, p in model.named_parameters() if "language_model" in n or "text_model" in n and "vision" not in n
            or n.startswith("lm_head")]
    return {"config": {"architectures": [name], "model_type": kind, **settings}, "parameters": sum(
        p.numel() for p in mine)}


def record(kind, name, settings, tokens):
    model, config = build(kind, name, settings, "meta" if tokens == 0 else "cpu")
    config_json = {"architectures": [name], "model_type": kind, **settings}
    row = {"config": config_json, "parameters": sum(p.numel() for p in model.parameters())}
    # Its eager experts all compute all tokens, whatever the router says; others attend by blocks.
    # NLLB-MoE's takes the mask of its router for numbers of experts (5.24).
    if tokens == 0 or kind in ("llama4_text", "led", "longformer", "pegasus_x", "nllb-moe"):
        return row
    # DeBERTa's scripted functions want gradients.
    with torch.set_grad_enabled(kind == "deberta"), FlopCounterMode(display=False) as counter:
        model.eval()(**inputs_of(model, config, tokens))
    row["tokens"] = tokens
    row["forward_flops"] = counter.get_total_flops()
    return row


def keys_of(kind):
    """A class's own keys with their defaults, and its further names for them."""
    cls = transformers.CONFIG_MAPPING[kind]
    of_all = set(transformers.PretrainedConfig().to_dict())
    declared = {"tie_word_embeddings"}
    for base in cls.__mro__:
        if base.__name__ in ("PretrainedConfig", "PreTrainedConfig"):
            break
        declared |= set(getattr(base, "__annotations__", {}))
    config = {key: value for key, value in cls().to_dict().items() if key not in of_all or key in declared}
    read = set()  # by the code, whether the class declares it or not
    for module in {cls.__module__, *(getattr(transformers, row[1]).__module__ for row in ROWS if row[0] == kind)}:
        text = inspect.getsource(sys.modules[module])
        read |= set(re.findall(r'(?:(?:get|has)attr\((?:self\.)?\w*config, |kwargs\.(?:pop|get)\()"(\w+)"', text))
    others = (declared | read | set(getattr(cls, "attribute_map", {}))) - set(config)
    return {"model_type": kind, **config}, sorted(key for key in others if not key.startswith("_") and "__" not in key)


def record_defaults():
    pairs = [keys_of(kind) for kind in dict.fromkeys(row[0] for row in ROWS)]
    # JSON has no infinity.
    lines = ",\n".join(json.dumps(config).replace("Infinity", "1.0") for config, _ in pairs)
    aliases = json.dumps({config["model_type"]: names for config, names in pairs})
    print(json.dumps({"transformers": transformers.__version__})[:-1] + ', "aliases": ' + aliases +
          ', "configs": [\n' + lines + "\n]}")


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--defaults", action="store_true", help="write tests/golden/default_configs.json instead")
    options = parser.parse_args()
    if options.defaults:
        return record_defaults()
    only = [word for word in options.only.split(",") if word]
    rows = []
    for kind, name, published, choices in ROWS:
        if only and kind not in only:
            continue
        rows.append(record(kind, name, published, 0))
        rng = random.Random(kind + name)
        made = 0
        for _ in range(20):
            if made == 3:
                break
            settings = {key: rng.choice(values) for key, values in choices.items()}
            try:
                # Linear attention fills its last chunk of 64 tokens.
                rows.append(record(kind, name, settings, 64 if "linear_num_key_heads" in settings else 24))
                made += 1
            except Exception as error:  # what transformers itself refuses
                print(f"{name}: {settings}: {type(error).__name__}: {error}", file=sys.stderr)
    for kind, name, text, sizes in WRAPPED:
        if only and kind not in only:
            continue
        for outer in ({}, {"tie_word_embeddings": True}, {"tie_word_embeddings": False}):
            rows.append(record_wrapped(kind, name, text, sizes, outer))
    head = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0]}
    lines = ",\n".join(json.dumps(row) for row in rows)
    print(json.dumps(head)[:-1] + ', "models": [\n' + lines + "\n]}")


if __name__ == "__main__":
    main()
