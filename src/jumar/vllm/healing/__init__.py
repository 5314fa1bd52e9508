"""A served model that heals: wrong numbers, crashes and hangs of one operator are found and left.

    jumar vllm serve MODEL --jumar-golden FOLDER --jumar-shadow 100

| part | where it runs |
|---|---|
| `steps` | in each worker: a beat for every step; one step in N under the lab's shadow |
| `recording` | before all: what Hugging Face's model has to say |
| `goldens` | in the API server, before it listens: the model says what it has to say |
| `child` | the `vllm serve` that is watched: whether it answers, and whether its steps go on |
| `front` | what callers speak to: it outlives the engine, and asks again what got no answer |
| `guilt` | the lab's questions to the engine that failed: which operator was it |
| `healing` | the life of all this: start, prove, serve, find out, quarantine, start again |
"""
