import { useEffect, useRef, useState } from 'preact/hooks'
import { Dialog, Wrong } from './dialog.tsx'
import type { Actions } from './panel.tsx'
import type { Connection } from './readiness.ts'
import { forgetToken, keepToken, readToken } from './service.ts'

export interface TokenProps {
  readonly connection: Connection
  readonly actions: Actions
}

/** The button that forgets the token or asks for one, and the dialog, which opens by itself when a request was refused. */
export function Token({ connection, actions }: TokenProps) {
  const input = useRef<HTMLInputElement>(null)
  /** What was wrong with the token; `undefined` while the dialog is closed. */
  const [error, setError] = useState<string>()
  const isLocked = connection.kind === 'locked'
  const refusals = isLocked ? connection.refusals : 0

  function ask(): void {
    const text = readToken() === undefined ? '' : 'The service does not accept this token.'
    setError(shown => shown ?? text)
    forgetToken()
  }

  useEffect(() => {
    if (refusals > 0) ask()
  }, [refusals])

  function submit(): boolean {
    const token = input.current?.value.trim() ?? ''
    if (token === '') return false
    keepToken(token)
    return true
  }

  function close(): void {
    setError(undefined)
    if (readToken() !== undefined) actions.refresh()
  }

  function forget(): void {
    forgetToken()
    actions.refresh()
  }

  return (
    <>
      {(isLocked || readToken() !== undefined) && (
        <button type="button" onClick={isLocked ? ask : forget}>
          {isLocked ? 'Enter the token…' : 'Forget the token'}
        </button>
      )}
      {error !== undefined && (
        <Dialog
          id="token-dialog"
          title="Token of the management port"
          action="Use the token"
          onSubmit={submit}
          onClose={close}
        >
          <p>
            The service answers only requests with the value of <code>MANAGEMENT_TOKEN</code>. It is
            kept for this tab, until you forget it or close the tab.
          </p>
          <label for="token">Token</label>
          <input
            id="token"
            type="password"
            autocomplete="off"
            spellcheck={false}
            required
            aria-describedby="token-error"
            ref={input}
          />
          <Wrong id="token-error" text={error} />
        </Dialog>
      )}
    </>
  )
}
