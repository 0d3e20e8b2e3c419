import { parentPort } from 'node:worker_threads'
import { createCalls } from '../../workers/calls.ts'
import { createThreadPort } from '../../workers/thread-port.ts'
// What opening the port takes is loaded at once, while the other thread opens the service.
import '../../wiring/open-management.ts'
import { runManagement } from './run-management.ts'

if (parentPort === null) throw new Error('this module is the start of a thread')
runManagement(createCalls(createThreadPort(parentPort)))
