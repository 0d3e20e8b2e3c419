import { runWorker } from './cli/serve/run-worker.ts'

process.exit(await runWorker())
