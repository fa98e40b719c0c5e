"""A typical training script: the Trainer of transformers.

    python hf_trainer.py [ARGS.yaml] [--gradient_checkpointing True ...]     # TrainingArguments of the Trainer
    python hf_trainer.py --tiny True --max_steps 8 --use_cpu True
"""

import transformers

from common import Clock, Model, Tokens, arguments, for_trainer


def main():
    size, training = arguments((Model, transformers.TrainingArguments), "hf_out")
    model, clock = size.build(), Clock()
    trainer = transformers.Trainer(model=model, args=training, callbacks=[for_trainer(clock)],
                                   train_dataset=Tokens(model.config.vocab_size, size.tokens))
    try:
        trainer.train()
    finally:
        clock.tell()


if __name__ == "__main__":
    main()
