import { useLayoutEffect, useRef } from 'preact/hooks'

export interface Question {
  readonly text: string
  /** What the button does, such as `Delete Ann`. */
  readonly action: string
  readonly onConfirm: () => void
}

/** Asks before something that cannot be undone. The focus returns to where it was. */
export function Confirm({
  text,
  action,
  onConfirm,
  onClose,
}: Question & { readonly onClose: () => void }) {
  const dialog = useRef<HTMLDialogElement>(null)
  useLayoutEffect(() => dialog.current?.showModal(), [])
  const close = () => dialog.current?.close()
  return (
    <dialog class="panel" aria-labelledby="question" ref={dialog} onClose={onClose}>
      <p id="question">{text}</p>
      <div class="fields">
        <button type="button" onClick={close}>
          Cancel
        </button>
        <button
          type="button"
          class="danger"
          onClick={() => {
            close()
            onConfirm()
          }}
        >
          {action}
        </button>
      </div>
    </dialog>
  )
}
