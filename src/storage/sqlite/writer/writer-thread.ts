import { parentPort } from 'node:worker_threads'
import { createCalls } from '../../../workers/calls.ts'
import { createThreadPort } from '../../../workers/thread-port.ts'
import { runWriter } from './run-writer.ts'

if (parentPort === null) throw new Error('this module is the start of a thread')
runWriter(createCalls(createThreadPort(parentPort)))
